// The pointwise steps of the quotient: a = a x, a = a - x, a = (x - a)/2. Elements are Montgomery, in natural order.
struct Parameters {
    // 0 product, 1 difference, 2 half difference.
    step: u32,
    len: u32,
    // Where the elements start in the segments of a and x.
    a_at: u32,
    x_at: u32,
}

@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read_write> a: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> x: array<vec4<u32>>;

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
    let a_i = 2u * (parameters.a_at + i);
    let x_i = 2u * (parameters.x_at + i);
    let left = joined(a[a_i], a[a_i + 1u]);
    let right = joined(x[x_i], x[x_i + 1u]);
    var result: Element;
    switch parameters.step {
        case 0u: {
            result = f_mul(left, right);
        }
        case 1u: {
            result = f_sub(left, right);
        }
        default: {
            result = f_half(f_sub(right, left));
        }
    }
    a[a_i] = low_half(result);
    a[a_i + 1u] = high_half(result);
}
