// The sums of the tiles before each, in one workgroup.
struct Parameters {
    tiles: u32,
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
}

@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read_write> sums: array<u32>;

@compute @workgroup_size(LANES)
fn main(@builtin(local_invocation_index) lane: u32) {
    var before = 0u;
    for (var first = 0u; first < parameters.tiles; first += LANES) {
        let i = first + lane;
        var sum = 0u;
        if (i < parameters.tiles) {
            sum = sums[i];
        }
        let scanned = scan(lane, sum);
        if (i < parameters.tiles) {
            sums[i] = before + scanned;
        }
        before += total;
    }
}
