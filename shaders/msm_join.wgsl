// Joins what runs have of a bucket that crosses them: its tail in the first, its heads in the others. First the heads, four at a
// time, then four of these, until the first head has all; last that with the tail.
struct Parameters {
    run: u32,
    runs: u32,
    first_run: u32,
    buckets: u32,
    // Runs between the heads that are added up, a power of four; or 0 for heads and tails.
    distance: u32,
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
}

@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read_write> sorted: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> starts: array<u32>;
@group(0) @binding(3) var<storage, read_write> buckets: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> heads: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> tails: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read> program: array<u32>;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    enter(lane);
    let run = parameters.first_run + group_number(group, groups) * LANES + lane;
    let entries = starts[parameters.buckets];
    let begin = run * parameters.run;
    if (run >= parameters.runs || begin >= entries) {
        return;
    }
    let end = min(begin + parameters.run, entries);
    let distance = parameters.distance;
    let settles = distance == 0u;
    let bucket = sorted[select(begin, end - 1u, settles)].y;
    // What is added to which head, or to the tail.
    var head = run + 1u;
    var step = 1u;
    var behind = run + 2u;
    if (settles) {
        // A tail begins here and goes on.
        if (starts[bucket] < begin || starts[bucket + 1u] <= end) {
            return;
        }
    } else {
        if (starts[bucket] >= begin) {
            return;
        }
        let first = starts[bucket] / parameters.run + 1u;
        let last = (starts[bucket + 1u] - 1u) / parameters.run;
        if (((run - first) & (4u * distance - 1u)) != 0u || run + distance > last) {
            return;
        }
        head = run + distance;
        step = distance;
        behind = min(run + 3u * distance, last) + 1u;
    }
    for (var k = 0u; k < POINT; k += 1u) {
        let from_at = 3u * (run * POINT + k);
        if (settles) {
            put(k, joined(tails[from_at], tails[from_at + 1u], tails[from_at + 2u]));
        } else {
            put(k, joined(heads[from_at], heads[from_at + 1u], heads[from_at + 2u]));
        }
    }
    for (; head < behind; head += step) {
        for (var k = 0u; k < POINT; k += 1u) {
            let from_at = 3u * (head * POINT + k);
            put(OTHER + k, joined(heads[from_at], heads[from_at + 1u], heads[from_at + 2u]));
        }
        add_point();
    }
    for (var k = 0u; k < POINT; k += 1u) {
        let value = take(k);
        if (settles) {
            let to = 3u * (bucket * POINT + k);
            buckets[to] = low_third(value);
            buckets[to + 1u] = middle_third(value);
            buckets[to + 2u] = high_third(value);
        } else {
            let to = 3u * (run * POINT + k);
            heads[to] = low_third(value);
            heads[to + 1u] = middle_third(value);
            heads[to + 2u] = high_third(value);
        }
    }
}
