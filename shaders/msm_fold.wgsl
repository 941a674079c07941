// Sums of lists of points, a few points a thread. In the first step the lists are, for each window of 2^bits segments: for
// each bit, the sums of segments that have it in their number; then the first half of the sums by weight, and the second. In
// later steps they are what the step before left of them.
struct Parameters {
    // Points of all lists together that come out.
    parts: u32,
    first_part: u32,
    // Points of a list that go in and that come out.
    len: u32,
    list_parts: u32,
    // Points that are added up to one.
    step: u32,
    bits: u32,
    // Whether it is the first step.
    first: u32,
    unused: u32,
}

@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read_write> sums: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> weighted: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> program: array<u32>;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    enter(lane);
    let part = parameters.first_part + group_number(group, groups) * LANES + lane;
    if (part >= parameters.parts) {
        return;
    }
    let bits = parameters.bits;
    let list = part / parameters.list_parts;
    let begin = (part % parameters.list_parts) * parameters.step;
    let end = min(begin + parameters.step, parameters.len);
    let window = list / (bits + 2u);
    let bit = list % (bits + 2u);
    clear(0u, POINT);
    for (var at = begin; at < end; at += 1u) {
        var place = list * parameters.len + at;
        let weighs = parameters.first == 1u && bit >= bits;
        if (weighs) {
            place = (window << bits) + (bit - bits) * parameters.len + at;
        } else if (parameters.first == 1u) {
            let low = at & ((1u << bit) - 1u);
            place = (window << bits) + (((at - low) << 1u) | (1u << bit) | low);
        }
        for (var k = 0u; k < POINT; k += 1u) {
            let from_at = 3u * (place * POINT + k);
            if (weighs) {
                put(OTHER + k, joined(weighted[from_at], weighted[from_at + 1u], weighted[from_at + 2u]));
            } else {
                put(OTHER + k, joined(sums[from_at], sums[from_at + 1u], sums[from_at + 2u]));
            }
        }
        add_point();
    }
    for (var k = 0u; k < POINT; k += 1u) {
        let to = 3u * (part * POINT + k);
        let value = take(k);
        out[to] = low_third(value);
        out[to + 1u] = middle_third(value);
        out[to + 2u] = high_third(value);
    }
}
