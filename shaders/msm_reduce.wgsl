// For each segment of neighbouring buckets their sum, and their sum by weight: 1 for the first bucket, 2 for the next.
struct Parameters {
    // Of all windows of the group.
    segments: u32,
    first_segment: u32,
    // Buckets of a segment.
    len: u32,
    unused: u32,
}

@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read_write> buckets: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> sums: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> weighted: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> program: array<u32>;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    enter(lane);
    let segment = parameters.first_segment + group_number(group, groups) * LANES + lane;
    if (segment >= parameters.segments) {
        return;
    }
    for (var k = 0u; k < POINT; k += 1u) {
        for (var word = 0u; word < 3u; word += 1u) {
            sums[3u * (segment * POINT + k) + word] = vec4<u32>();
            weighted[3u * (segment * POINT + k) + word] = vec4<u32>();
        }
    }
    // From the last bucket on: to the sum the bucket, to the sum by weight the sum.
    for (var turn = 0u; turn < 2u * parameters.len; turn += 1u) {
        let weighs = (turn & 1u) == 1u;
        let bucket = (segment + 1u) * parameters.len - 1u - (turn >> 1u);
        if (weighs) {
            carry_over(0u, OTHER, POINT);
        }
        for (var k = 0u; k < POINT; k += 1u) {
            let own = 3u * (segment * POINT + k);
            if (weighs) {
                put(k, joined(weighted[own], weighted[own + 1u], weighted[own + 2u]));
            } else {
                let from_at = 3u * (bucket * POINT + k);
                put(k, joined(sums[own], sums[own + 1u], sums[own + 2u]));
                put(OTHER + k, joined(buckets[from_at], buckets[from_at + 1u], buckets[from_at + 2u]));
            }
        }
        add_point();
        for (var k = 0u; k < POINT; k += 1u) {
            let to = 3u * (segment * POINT + k);
            let value = take(k);
            if (weighs) {
                weighted[to] = low_third(value);
                weighted[to + 1u] = middle_third(value);
                weighted[to + 2u] = high_third(value);
            } else {
                sums[to] = low_third(value);
                sums[to + 1u] = middle_third(value);
                sums[to + 2u] = high_third(value);
            }
        }
    }
}
