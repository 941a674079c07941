// Sums of runs of sorted entries, one a thread, however they are spread over buckets. A bucket that lies within a run is
// its sum; of one that begins before, the run has a head; of one that begins in it and goes on, a tail.
struct Parameters {
    run: u32,
    runs: u32,
    first_run: u32,
    buckets: u32,
    // Whether buckets have points of earlier chunks, which go before a bucket's first.
    more: u32,
    // Where the chunk's points start in their segment.
    bases_at: u32,
    unused_0: u32,
    unused_1: u32,
}

@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read> bases: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> sorted: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read_write> starts: array<u32>;
@group(0) @binding(4) var<storage, read_write> buckets: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> heads: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read_write> tails: array<vec4<u32>>;
@group(0) @binding(7) var<storage, read> program: array<u32>;

const NO_BUCKET: u32 = 0xffffffffu;

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
    var bucket = NO_BUCKET;
    for (var at = begin; at <= end; at += 1u) {
        var entry = vec2<u32>(0u, NO_BUCKET);
        if (at < end) {
            entry = sorted[at];
        }
        if (entry.y != bucket) {
            if (bucket != NO_BUCKET) {
                let starts_before = starts[bucket] < begin;
                let ends_behind = starts[bucket + 1u] > end;
                for (var k = 0u; k < POINT; k += 1u) {
                    let value = take(k);
                    if (starts_before) {
                        let to = 3u * (run * POINT + k);
                        heads[to] = low_third(value);
                        heads[to + 1u] = middle_third(value);
                        heads[to + 2u] = high_third(value);
                    } else if (ends_behind) {
                        let to = 3u * (run * POINT + k);
                        tails[to] = low_third(value);
                        tails[to + 1u] = middle_third(value);
                        tails[to + 2u] = high_third(value);
                    } else {
                        let to = 3u * (bucket * POINT + k);
                        buckets[to] = low_third(value);
                        buckets[to + 1u] = middle_third(value);
                        buckets[to + 2u] = high_third(value);
                    }
                }
            }
            bucket = entry.y;
            if (bucket == NO_BUCKET) {
                break;
            }
            if (parameters.more == 1u && starts[bucket] >= begin) {
                for (var k = 0u; k < POINT; k += 1u) {
                    let from_at = 3u * (bucket * POINT + k);
                    put(k, joined(buckets[from_at], buckets[from_at + 1u], buckets[from_at + 2u]));
                }
            } else {
                clear(0u, POINT);
            }
        }
        let base = 3u * (parameters.bases_at + (entry.x & 0x7fffffffu)) * AFFINE;
        let negative = (entry.x >> 31u) == 1u;
        for (var k = 0u; k < AFFINE; k += 1u) {
            let from_at = base + 3u * k;
            var value = joined(bases[from_at], bases[from_at + 1u], bases[from_at + 2u]);
            if (negative && k >= DEGREE) {
                value = f_sub(f_zero(), value);
            }
            put(OTHER + k, value);
        }
        add_affine();
    }
}
