// Scalars in canonical form.
struct Parameters {
    len: u32,
    // Where they start in their segment.
    scalars_at: u32,
    unused_0: u32,
    unused_1: u32,
}

@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read> scalars: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> canonical: array<vec4<u32>>;

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
    let at = 2u * (parameters.scalars_at + i);
    let value = f_mul(joined(scalars[at], scalars[at + 1u]), f_unit());
    canonical[2u * i] = low_half(value);
    canonical[2u * i + 1u] = high_half(value);
}
