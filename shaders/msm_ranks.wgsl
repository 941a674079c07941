// Set bits of each word of a density: scanned, they are the ranks of the words' first bits.
struct Parameters {
    words: u32,
    // Where they start in the segment of the density, and in the ranks.
    density_at: u32,
    ranks_at: u32,
    unused: u32,
}

@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read> density: array<u32>;
@group(0) @binding(2) var<storage, read_write> ranks: array<u32>;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = group_number(group, groups) * LANES + lane;
    if (i < parameters.words) {
        ranks[parameters.ranks_at + i] = countOneBits(density[parameters.density_at + i]);
    }
}
