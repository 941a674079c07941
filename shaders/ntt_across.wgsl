// One level of butterflies between two segments: src/backend/wgpu/ntt.rs. Elements at the same place of both are a pair.
struct Parameters {
    inverse: u32,
    odd: u32,
    // The pairs.
    at: u32,
    len: u32,
    // The bits of the index between the segment's and the level's.
    between: u32,
    shift: u32,
    mask: u32,
    split: u32,
    coarse: u32,
    fine: u32,
    // Products by which an element turns, 2.
    factors: u32,
    unused: u32,
}

@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read> table: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> first: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> second: array<vec4<u32>>;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let pair = group_number(group, groups) * LANES + lane;
    if (pair >= parameters.len) {
        return;
    }
    let i = parameters.at + pair;
    let inverse = parameters.inverse == 1u;
    var left = joined(first[2u * i], first[2u * i + 1u]);
    var right = joined(second[2u * i], second[2u * i + 1u]);
    if (inverse) {
        let sum = f_add(left, right);
        right = f_sub(left, right);
        left = sum;
    }
    var exponent = (2u * (parameters.between | i) + parameters.odd) << parameters.shift;
    if (inverse) {
        exponent = 0u - exponent;
    }
    exponent &= parameters.mask;
    for (var k = 0u; k < parameters.factors; k += 1u) {
        var place = parameters.coarse + (exponent >> parameters.split);
        if (k == 1u) {
            place = parameters.fine + (exponent & ((1u << parameters.split) - 1u));
        }
        right = f_mul(right, joined(table[2u * place], table[2u * place + 1u]));
    }
    if (!inverse) {
        let sum = f_add(left, right);
        right = f_sub(left, right);
        left = sum;
    }
    first[2u * i] = low_half(left);
    first[2u * i + 1u] = high_half(left);
    second[2u * i] = low_half(right);
    second[2u * i + 1u] = high_half(right);
}
