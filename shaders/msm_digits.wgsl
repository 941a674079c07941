// The signed digits of scalars in a group of windows, for the points of a chunk. |s| is s or r - s, below 2^254; a digit is
// from -2^(w-1) to 2^(w-1), by Booth's rule. Each is counted in its bucket, and told how many came before it.
struct Parameters {
    // The scalars: where they start in their segment, and what is their first one's position in the range.
    len: u32,
    scalars_at: u32,
    position: u32,
    // The word of the density, in its segment, that has the bit of position 0, if that were there; modulo 2^32.
    density_at: u32,
    // Whether there is a density.
    dense: u32,
    // The points of the chunk, by the number of the first among all.
    first_point: u32,
    points: u32,
    window_bits: u32,
    first_window: u32,
    windows: u32,
    // As `density_at`, of the ranks, which are as many words.
    ranks_at: u32,
    unused: u32,
}

const NONE: u32 = 0xffffffffu;

@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read> scalars: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> density: array<u32>;
@group(0) @binding(3) var<storage, read_write> ranks: array<u32>;
// By bucket, window by window.
@group(0) @binding(4) var<storage, read_write> counts: array<atomic<u32>>;
// By window and point: the bucket, with the sign in the top bit; and how many of the bucket came before.
@group(0) @binding(5) var<storage, read_write> keys: array<u32>;
@group(0) @binding(6) var<storage, read_write> orders: array<u32>;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = group_number(group, groups) * LANES + lane;
    if (i >= parameters.len) {
        return;
    }
    let position = parameters.position + i;
    var point = position;
    if (parameters.dense == 1u) {
        let word = position >> 5u;
        let bits = density[parameters.density_at + word];
        let bit = position & 31u;
        if (((bits >> bit) & 1u) == 0u) {
            return;
        }
        point = ranks[parameters.ranks_at + word] + countOneBits(bits & ((1u << bit) - 1u));
    }
    // Below the first point it wraps around.
    point -= parameters.first_point;
    if (point >= parameters.points) {
        return;
    }
    let at = 2u * (parameters.scalars_at + i);
    var value = f_mul(joined(scalars[at], scalars[at + 1u]), f_unit());
    // r - s, unless that is the larger one.
    let opposite = f_sub(f_zero(), value);
    var negative = false;
    for (var k = 0u; k < WORDS; k += 1u) {
        if (opposite[k] != value[k]) {
            negative = opposite[k] < value[k];
        }
    }
    if (negative) {
        value = opposite;
    }
    let w = parameters.window_bits;
    let half = 1u << (w - 1u);
    for (var j = 0u; j < parameters.windows; j += 1u) {
        // The window's bits and the one below.
        let low = (parameters.first_window + j) * w;
        var raw = value[0] << 1u;
        if (low > 0u) {
            let word = (low - 1u) >> 5u;
            let bit = (low - 1u) & 31u;
            raw = 0u;
            if (word < WORDS) {
                raw = value[word] >> bit;
            }
            if (word + 1u < WORDS && bit > 0u) {
                raw |= value[word + 1u] << (32u - bit);
            }
        }
        raw &= (2u << w) - 1u;
        let down = raw > (2u * half) - 1u;
        let digit = select((raw + 1u) >> 1u, (2u * half) - ((raw + 1u) >> 1u), down);
        let to = j * parameters.points + point;
        if (digit == 0u) {
            keys[to] = NONE;
        } else {
            let bucket = j * half + digit - 1u;
            keys[to] = bucket | (u32(down != negative) << 31u);
            orders[to] = atomicAdd(&counts[bucket], 1u);
        }
    }
}
