// Entries sorted by bucket: behind what comes before the bucket, and before in it.
struct Parameters {
    points: u32,
    entries: u32,
    first: u32,
    unused: u32,
}

const NONE: u32 = 0xffffffffu;

@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read_write> keys: array<u32>;
@group(0) @binding(2) var<storage, read_write> orders: array<u32>;
@group(0) @binding(3) var<storage, read_write> starts: array<u32>;
// A point, with the sign in the top bit, and its bucket.
@group(0) @binding(4) var<storage, read_write> sorted: array<vec2<u32>>;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = parameters.first + group_number(group, groups) * LANES + lane;
    if (i >= parameters.entries) {
        return;
    }
    let key = keys[i];
    if (key == NONE) {
        return;
    }
    let bucket = key & 0x7fffffffu;
    let point = i % parameters.points;
    sorted[starts[bucket] + orders[i]] = vec2<u32>(point | (key & 0x80000000u), bucket);
}
