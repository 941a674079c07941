// Sums over a workgroup, by doubling distances. All threads call it.
var<workgroup> partial: array<u32, LANES>;
// The sum over all lanes, after `scan`.
var<private> total: u32;

// The sum over the lanes below.
fn scan(lane: u32, value: u32) -> u32 {
    var sum = value;
    partial[lane] = sum;
    workgroupBarrier();
    for (var distance = 1u; distance < LANES; distance *= 2u) {
        var below = 0u;
        if (lane >= distance) {
            below = partial[lane - distance];
        }
        workgroupBarrier();
        sum += below;
        partial[lane] = sum;
        workgroupBarrier();
    }
    total = partial[LANES - 1u];
    workgroupBarrier();
    return sum - value;
}
