// Writes a submission's number, the last that it does.
struct Parameters {
    number: u32,
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
}

@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read_write> word: array<u32>;

@compute @workgroup_size(1)
fn main() {
    word[0] = parameters.number;
}
