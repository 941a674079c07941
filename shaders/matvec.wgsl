// Sums over rows of a sparse matrix, as far as they are in what is bound: a window of the entries, a segment of the
// coefficients' table, a segment of the vector. A row with few entries there is one thread's; the others' are added up by the
// whole workgroup, one row after another.
struct Parameters {
    rows: u32,
    // Where the rows' first and last entries start in their segments, and the sums in theirs.
    starts_at: u32,
    ends_at: u32,
    sums_at: u32,
    // The entries of the window, and the first of the bound segments.
    entry_begin: u32,
    entry_end: u32,
    entry_bound: u32,
    // What is bound of the table and of the vector.
    table_begin: u32,
    table_end: u32,
    x_begin: u32,
    x_end: u32,
    // Whether sums are set, not added to.
    first: u32,
}

@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read> starts: array<u32>;
@group(0) @binding(2) var<storage, read> ends: array<u32>;
@group(0) @binding(3) var<storage, read> column: array<u32>;
@group(0) @binding(4) var<storage, read> coefficient: array<u32>;
@group(0) @binding(5) var<storage, read> table: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read> x: array<vec4<u32>>;
@group(0) @binding(7) var<storage, read_write> sums: array<vec4<u32>>;

// Entries up to which a row is one thread's.
const SHORT: u32 = 64u;

// Sums of threads, word by word.
var<workgroup> partial: array<u32, WORDS * ROWS>;
var<workgroup> long_rows: array<u32, ROWS>;
var<workgroup> long_counter: atomic<u32>;
var<workgroup> long_count: u32;

fn put(lane: u32, value: Element) {
    for (var k = 0u; k < WORDS; k += 1u) {
        partial[k * ROWS + lane] = value[k];
    }
}

fn take(lane: u32) -> Element {
    return Element(
        partial[lane],
        partial[ROWS + lane],
        partial[2u * ROWS + lane],
        partial[3u * ROWS + lane],
        partial[4u * ROWS + lane],
        partial[5u * ROWS + lane],
        partial[6u * ROWS + lane],
        partial[7u * ROWS + lane],
    );
}

fn write(row: u32, sum: Element) {
    let place = 2u * (parameters.sums_at + row);
    var total = sum;
    if (parameters.first == 0u) {
        total = f_add(total, joined(sums[place], sums[place + 1u]));
    }
    sums[place] = low_half(total);
    sums[place + 1u] = high_half(total);
}

@compute @workgroup_size(ROWS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let first_row = group_number(group, groups) * ROWS;
    let own = first_row + lane;
    if (lane == 0u) {
        atomicStore(&long_counter, 0u);
    }
    workgroupBarrier();

    var begin = 0u;
    var end = 0u;
    if (own < parameters.rows) {
        begin = max(starts[parameters.starts_at + own], parameters.entry_begin);
        end = min(ends[parameters.ends_at + own], parameters.entry_end);
    }
    var is_long = false;
    if (end > begin && end - begin > SHORT) {
        is_long = true;
        long_rows[atomicAdd(&long_counter, 1u)] = own;
        end = begin;
    }
    workgroupBarrier();
    if (lane == 0u) {
        long_count = atomicLoad(&long_counter);
    }
    let rounds = workgroupUniformLoad(&long_count) + 1u;

    var row = own;
    var step = 1u;
    for (var round = 0u; round < rounds; round += 1u) {
        if (round > 0u) {
            row = long_rows[round - 1u];
            begin = max(starts[parameters.starts_at + row], parameters.entry_begin) + lane;
            end = min(ends[parameters.ends_at + row], parameters.entry_end);
            step = ROWS;
        }
        var sum = f_zero();
        for (var entry = begin; entry < end; entry += step) {
            let at = entry - parameters.entry_bound;
            let c = column[at];
            let t = coefficient[at];
            if (c >= parameters.x_begin && c < parameters.x_end && t >= parameters.table_begin && t < parameters.table_end) {
                let place = 2u * (c - parameters.x_begin);
                var term = joined(x[place], x[place + 1u]);
                if (t > 1u) {
                    let factor = 2u * (t - parameters.table_begin);
                    term = f_mul(term, joined(table[factor], table[factor + 1u]));
                }
                // The table starts with 1 and -1.
                if (t == 1u) {
                    sum = f_sub(sum, term);
                } else {
                    sum = f_add(sum, term);
                }
            }
        }
        if (round == 0u) {
            if (own < parameters.rows && !is_long) {
                write(own, sum);
            }
        } else {
            put(lane, sum);
            for (var half = ROWS / 2u; half > 0u; half /= 2u) {
                workgroupBarrier();
                if (lane < half) {
                    put(lane, f_add(take(lane), take(lane + half)));
                }
            }
            if (lane == 0u) {
                write(row, take(0u));
            }
            workgroupBarrier();
        }
    }
}
