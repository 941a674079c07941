// The sum of all values before each, in its place.
struct Parameters {
    len: u32,
    // Where the tiles' sums start.
    sums_at: u32,
    unused_0: u32,
    unused_1: u32,
}

@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read_write> values: array<u32>;
// Of the tiles before each.
@group(0) @binding(2) var<storage, read_write> sums: array<u32>;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let tile = group_number(group, groups);
    let first = (tile * LANES + lane) * RUN;
    var sum = 0u;
    for (var k = 0u; k < RUN; k += 1u) {
        if (first + k < parameters.len) {
            sum += values[first + k];
        }
    }
    let scanned = scan(lane, sum);
    if (first < parameters.len) {
        var before = sums[parameters.sums_at + tile] + scanned;
        for (var k = 0u; k < RUN; k += 1u) {
            if (first + k < parameters.len) {
                let value = values[first + k];
                values[first + k] = before;
                before += value;
            }
        }
    }
}
