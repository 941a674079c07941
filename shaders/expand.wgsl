// Elements of a compact vector, one a thread: src/compact.rs. A launch writes the elements whose values are in the
// segments of small and wide values that are bound; the first launch also those that are only tags.
struct Parameters {
    // R^2, that small values are multiplied by.
    square_low: vec4<u32>,
    square_high: vec4<u32>,
    // Where the elements start in the segment of the output, a multiple of 64 behind the first block.
    out_at: u32,
    len: u32,
    block_at: u32,
    // What is bound of the small and of the wide values.
    small_begin: u32,
    small_end: u32,
    wide_begin: u32,
    wide_end: u32,
    first: u32,
    // 1 if the output is set, 2 if it is multiplied.
    rounds: u32,
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
}

@group(0) @binding(0) var<uniform> parameters: Parameters;
// A block is 64 elements: three planes of tag bits, where its small and its wide values start.
@group(0) @binding(1) var<storage, read> blocks: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> small: array<u32>;
@group(0) @binding(3) var<storage, read> wide: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> out: array<vec4<u32>>;

// How many bits of a mask are below `bit`.
fn count_below(mask: vec2<u32>, bit: u32) -> u32 {
    if (bit >= 32u) {
        return countOneBits(mask.x) + countOneBits(mask.y & ((1u << (bit - 32u)) - 1u));
    }
    return countOneBits(mask.x & ((1u << bit) - 1u));
}

fn has(mask: vec2<u32>, bit: u32) -> bool {
    return ((select(mask.x, mask.y, bit >= 32u) >> (bit & 31u)) & 1u) == 1u;
}

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
    let block = 2u * (parameters.block_at + (i >> 6u));
    let bit = i & 63u;
    let head = blocks[block];
    let tail = blocks[block + 1u];
    let low = head.xy;
    let middle = head.zw;
    let high = tail.xy;
    let is_negative = has(high & low, bit);
    let small_mask = (high & ~middle & ~low) | (high & low);
    let wide_mask = high & middle;

    var value = f_zero();
    var is_small = false;
    if (has(small_mask, bit)) {
        let at = tail.z + count_below(small_mask, bit);
        if (at < parameters.small_begin || at >= parameters.small_end) {
            return;
        }
        value[0] = small[at - parameters.small_begin];
        is_small = true;
    } else if (has(wide_mask, bit)) {
        let at = tail.w + count_below(wide_mask, bit);
        if (at < parameters.wide_begin || at >= parameters.wide_end) {
            return;
        }
        let place = 2u * (at - parameters.wide_begin);
        value = joined(wide[place], wide[place + 1u]);
    } else {
        if (parameters.first == 0u) {
            return;
        }
        if (has(low & ~high, bit)) {
            value = f_one();
        } else if (has(middle & ~high, bit)) {
            value = f_sub(f_zero(), f_one());
        }
    }

    let place = 2u * (parameters.out_at + i);
    for (var round = 0u; round < parameters.rounds; round += 1u) {
        var factor = joined(parameters.square_low, parameters.square_high);
        if (round == 1u) {
            factor = joined(out[place], out[place + 1u]);
        }
        if (round == 1u || is_small) {
            value = f_mul(value, factor);
        }
        if (round == 0u && is_negative) {
            value = f_sub(f_zero(), value);
        }
    }
    out[place] = low_half(value);
    out[place + 1u] = high_half(value);
}
