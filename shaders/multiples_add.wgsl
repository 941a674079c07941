// Adds to each scalar's sum what a segment of the table has for its digits: signed ones, by Booth's rule.
struct Parameters {
    len: u32,
    window_bits: u32,
    // The windows that have entries in the segment.
    first_window: u32,
    windows: u32,
    // The segment's entries, by their numbers in the table.
    table_begin: u32,
    table_end: u32,
    // Whether this is the first segment: sums are set.
    first: u32,
    first_sum: u32,
}

@group(0) @binding(0) var<uniform> parameters: Parameters;
// For each window the multiples 1 to 2^(w-1), affine.
@group(0) @binding(1) var<storage, read> table: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> canonical: array<u32>;
@group(0) @binding(3) var<storage, read_write> sums: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> program: array<u32>;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    enter(lane);
    let i = parameters.first_sum + group_number(group, groups) * LANES + lane;
    if (i >= parameters.len) {
        return;
    }
    if (parameters.first == 1u) {
        clear(0u, POINT);
    } else {
        for (var k = 0u; k < POINT; k += 1u) {
            let at = 3u * (i * POINT + k);
            put(k, joined(sums[at], sums[at + 1u], sums[at + 2u]));
        }
    }
    let w = parameters.window_bits;
    for (var j = 0u; j < parameters.windows; j += 1u) {
        let window = parameters.first_window + j;
        // The window's bits and the one below.
        var raw = canonical[8u * i] << 1u;
        if (window > 0u) {
            let low = window * w - 1u;
            let word = low >> 5u;
            raw = 0u;
            if (word < 8u) {
                raw = canonical[8u * i + word] >> (low & 31u);
            }
            if (word + 1u < 8u && (low & 31u) > 0u) {
                raw |= canonical[8u * i + word + 1u] << (32u - (low & 31u));
            }
        }
        raw &= (2u << w) - 1u;
        let negative = (raw >> w) == 1u;
        let digit = select((raw + 1u) >> 1u, (1u << w) - ((raw + 1u) >> 1u), negative);
        let entry = (window << (w - 1u)) + digit - 1u;
        if (digit == 0u || entry < parameters.table_begin || entry >= parameters.table_end) {
            continue;
        }
        for (var k = 0u; k < AFFINE; k += 1u) {
            let at = 3u * ((entry - parameters.table_begin) * AFFINE + k);
            var value = joined(table[at], table[at + 1u], table[at + 2u]);
            if (negative && k >= DEGREE) {
                value = f_sub(f_zero(), value);
            }
            put(OTHER + k, value);
        }
        add_affine();
    }
    for (var k = 0u; k < POINT; k += 1u) {
        let at = 3u * (i * POINT + k);
        let value = take(k);
        sums[at] = low_third(value);
        sums[at + 1u] = middle_third(value);
        sums[at + 2u] = high_third(value);
    }
}
