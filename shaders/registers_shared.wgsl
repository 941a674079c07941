// The registers of all threads of a workgroup, in its memory: software adapters look for a place in an array of a thread's
// own by going through it.
var<workgroup> registers: array<Element, REGISTERS * LANES>;
var<private> own: u32;

fn enter(lane: u32) {
    own = lane * REGISTERS;
}

fn take(place: u32) -> Element {
    return registers[own + place];
}

fn put(place: u32, value: Element) {
    registers[own + place] = value;
}
