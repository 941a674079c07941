// The levels of butterflies over one digit of the index, through workgroup memory: src/backend/wgpu/ntt.rs. A tile holds
// 2^columns transforms over 2^bits elements each, of neighbouring places.
struct Parameters {
    // Whether evaluations become coefficients.
    inverse: u32,
    // Bits below the digit, and of it.
    low: u32,
    bits: u32,
    columns: u32,
    odd: u32,
    // Products by which an element turns: 0, 1 or 2.
    factors: u32,
    // Whether the only factor is entry direct_base + direct_stride d of the table, d the digit reversed.
    direct: u32,
    direct_base: u32,
    direct_stride: u32,
    // Exponents are shifted by this, and are below mask + 1.
    shift: u32,
    mask: u32,
    // Bits of an exponent that index the fine table, and where the two tables start.
    split: u32,
    coarse: u32,
    fine: u32,
    first_tile: u32,
    tiles: u32,
}

@group(0) @binding(0) var<uniform> parameters: Parameters;
// Starts with the powers of the 512th root of unity, 0 to 256.
@group(0) @binding(1) var<storage, read> table: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> data: array<vec4<u32>>;

// The tile, word by word.
var<workgroup> words: array<u32, WORDS * TILE>;

fn put(place: u32, value: Element) {
    for (var k = 0u; k < WORDS; k += 1u) {
        words[k * TILE + place] = value[k];
    }
}

fn take(place: u32) -> Element {
    return Element(
        words[place],
        words[TILE + place],
        words[2u * TILE + place],
        words[3u * TILE + place],
        words[4u * TILE + place],
        words[5u * TILE + place],
        words[6u * TILE + place],
        words[7u * TILE + place],
    );
}

// The bits below the digit of an element of a tile.
fn below(tile: u32, element: u32) -> u32 {
    let lines = parameters.low - parameters.columns;
    let line = tile & ((1u << lines) - 1u);
    return (line << parameters.columns) | (element & ((1u << parameters.columns) - 1u));
}

// Where an element of a tile is in the segment.
fn index_of(tile: u32, element: u32) -> u32 {
    let above = tile >> (parameters.low - parameters.columns);
    let digit = element >> parameters.columns;
    return (((above << parameters.bits) | digit) << parameters.low) | below(tile, element);
}

// The place in the table of the factor `which` of an element.
fn factor_of(tile: u32, element: u32, which: u32) -> u32 {
    let turned = reverseBits(element >> parameters.columns) >> (32u - parameters.bits);
    if (parameters.direct == 1u) {
        return parameters.direct_base + turned * parameters.direct_stride;
    }
    var exponent = ((2u * below(tile, element) + parameters.odd) * turned) << parameters.shift;
    if (parameters.inverse == 1u) {
        exponent = 0u - exponent;
    }
    exponent &= parameters.mask;
    if (which == 1u) {
        return parameters.fine + (exponent & ((1u << parameters.split) - 1u));
    }
    return parameters.coarse + (exponent >> parameters.split);
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let number = group_number(group, groups);
    let tile = parameters.first_tile + number;
    var elements = 1u << (parameters.bits + parameters.columns);
    if (number >= parameters.tiles) {
        elements = 0u;
    }
    for (var element = lane; element < elements; element += LANES) {
        let at = 2u * index_of(tile, element);
        put(element, joined(data[at], data[at + 1u]));
    }

    let inverse = parameters.inverse == 1u;
    let turns = 2u * parameters.factors;
    let steps = parameters.bits + turns;
    for (var step = 0u; step < steps; step += 1u) {
        workgroupBarrier();
        // Levels come first on the way to coefficients, and last on the way from them.
        let is_level = select(step >= turns, step < parameters.bits, inverse);
        let turn = select(step, step - parameters.bits, inverse);
        let height = select(step - turns, parameters.bits - 1u - step, inverse);
        var first = 0u;
        var second = 0u;
        var factor = 0u;
        var is_active = false;
        if (is_level) {
            is_active = lane < elements / 2u;
            let pair = lane >> parameters.columns;
            let j = pair & ((1u << height) - 1u);
            let digit = ((pair >> height) << (height + 1u)) | j;
            let column = lane & ((1u << parameters.columns) - 1u);
            first = (digit << parameters.columns) | column;
            second = first + (1u << (height + parameters.columns));
            factor = j << (8u - height);
            if (inverse) {
                factor = 256u - factor;
            }
        } else {
            first = lane + LANES * (turn >> (parameters.factors - 1u));
            is_active = first < elements;
            factor = factor_of(tile, first, turn & (parameters.factors - 1u));
        }
        if (is_active) {
            var left = take(first);
            var right = left;
            if (is_level) {
                right = take(second);
                if (inverse) {
                    let sum = f_add(left, right);
                    // The power is -w^-j.
                    right = f_sub(right, left);
                    left = sum;
                }
            }
            let product = f_mul(right, joined(table[2u * factor], table[2u * factor + 1u]));
            if (!is_level) {
                put(first, product);
            } else if (inverse) {
                put(first, left);
                put(second, product);
            } else {
                put(first, f_add(left, product));
                put(second, f_sub(left, product));
            }
        }
    }

    workgroupBarrier();
    for (var element = lane; element < elements; element += LANES) {
        let at = 2u * index_of(tile, element);
        let value = take(element);
        data[at] = low_half(value);
        data[at + 1u] = high_half(value);
    }
}
