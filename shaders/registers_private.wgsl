// The registers of a thread, where a device has room for them beside the threads' other values.
var<private> registers: array<Element, REGISTERS>;

fn enter(lane: u32) {}

fn take(place: u32) -> Element {
    return registers[place];
}

fn put(place: u32, value: Element) {
    registers[place] = value;
}
