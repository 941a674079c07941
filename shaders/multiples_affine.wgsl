// Affine forms, of a batch of sums with one inversion in each thread: products of the norms of all ZZZ up to each sum, the
// inverse of the last by a power, and back.
struct Parameters {
    // q - 2
    exponent: array<vec4<u32>, 3>,
    // Sums, threads, and sums of a thread: i, i + threads, i + 2 threads, ...
    len: u32,
    threads: u32,
    batch: u32,
    // Where the first one's affine form goes in its segment.
    out_at: u32,
}

@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read_write> sums: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> products: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> program: array<u32>;

const EXPONENT_BITS: u32 = 381u;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    enter(lane);
    let thread = group_number(group, groups) * LANES + lane;
    if (thread >= parameters.threads) {
        return;
    }
    let batch = parameters.batch;
    put(PRODUCT, f_one());
    put(POWER, f_one());
    for (var turn = 0u; turn < 2u * batch + EXPONENT_BITS; turn += 1u) {
        let multiplies = turn < batch;
        let inverts = turn >= batch && turn < batch + EXPONENT_BITS;
        var begin = TO_POWER;
        var end = TO_POWER + 1u;
        var i = 0u;
        if (inverts) {
            let bit = EXPONENT_BITS - 1u - (turn - batch);
            end += (parameters.exponent[bit >> 7u][(bit >> 5u) & 3u] >> (bit & 31u)) & 1u;
        } else {
            let of_batch = select(2u * batch + EXPONENT_BITS - 1u - turn, turn, multiplies);
            i = thread + of_batch * parameters.threads;
            if (i >= parameters.len) {
                continue;
            }
            for (var k = 0u; k < POINT; k += 1u) {
                let at = 3u * (i * POINT + k);
                put(k, joined(sums[at], sums[at + 1u], sums[at + 2u]));
            }
            begin = TO_PRODUCT;
            end = TO_PRODUCT_END;
            if (!multiplies) {
                begin = TO_AFFINE;
                end = TO_AFFINE_END;
                put(BEFORE, f_one());
                if (of_batch > 0u) {
                    let at = 3u * (i - parameters.threads);
                    put(BEFORE, joined(products[at], products[at + 1u], products[at + 2u]));
                }
            }
            if (sum_is_infinity()) {
                end = begin;
                clear(0u, POINT);
            }
        }
        run(begin, end);
        if (multiplies) {
            let value = take(PRODUCT);
            products[3u * i] = low_third(value);
            products[3u * i + 1u] = middle_third(value);
            products[3u * i + 2u] = high_third(value);
        } else if (!inverts) {
            for (var k = 0u; k < AFFINE; k += 1u) {
                let to = 3u * ((parameters.out_at + i) * AFFINE + k);
                let value = take(k);
                out[to] = low_third(value);
                out[to + 1u] = middle_third(value);
                out[to + 2u] = high_third(value);
            }
        }
    }
}
