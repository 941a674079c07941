// Products one after another in each thread: how fast a core is. What comes out is the same on every core.
struct Parameters {
    turns: u32,
    // Products of a turn: no constant, or drivers would unroll the loop.
    chain: u32,
    unused_0: u32,
    unused_1: u32,
}

@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read_write> out: array<u32>;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = group_number(group, groups) * LANES + lane;
    var x = f_one();
    x[0] = x[0] ^ i;
    var y = f_add(x, f_one());
    // Loops of some drivers end after 65,535 turns.
    for (var turn = 0u; turn < parameters.turns; turn += 1u) {
        for (var k = 0u; k < parameters.chain; k += 1u) {
            let z = f_mul(x, y);
            y = x;
            x = z;
        }
    }
    var sum = 0u;
    for (var k = 0u; k < WORDS; k += 1u) {
        sum = sum * 31u + x[k];
    }
    out[i] = sum;
}
