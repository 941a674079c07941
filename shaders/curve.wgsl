// Sums of points, by the table of src/backend/shader/programs.rs, which a kernel binds as `program`. Points are XYZZ, of 4 DEGREE elements, or affine, of 2 DEGREE; an element is three
// vectors of four words.
const POINT: u32 = 4u * DEGREE;
const AFFINE: u32 = 2u * DEGREE;

// Where what is added to the sum stands.
const OTHER: u32 = POINT;

fn joined(low: vec4<u32>, middle: vec4<u32>, high: vec4<u32>) -> Element {
    return Element(
        low.x, low.y, low.z, low.w,
        middle.x, middle.y, middle.z, middle.w,
        high.x, high.y, high.z, high.w,
    );
}

fn low_third(x: Element) -> vec4<u32> {
    return vec4<u32>(x[0], x[1], x[2], x[3]);
}

fn middle_third(x: Element) -> vec4<u32> {
    return vec4<u32>(x[4], x[5], x[6], x[7]);
}

fn high_third(x: Element) -> vec4<u32> {
    return vec4<u32>(x[8], x[9], x[10], x[11]);
}

// Whether so many registers are 0.
fn all_zero(first: u32, count: u32) -> bool {
    var zero = true;
    for (var k = 0u; k < count; k += 1u) {
        zero = zero && f_is_zero(take(first + k));
    }
    return zero;
}

fn clear(first: u32, count: u32) {
    for (var k = 0u; k < count; k += 1u) {
        put(first + k, f_zero());
    }
}

fn carry_over(from_first: u32, to_first: u32, count: u32) {
    for (var k = 0u; k < count; k += 1u) {
        put(to_first + k, take(from_first + k));
    }
}

fn sum_is_infinity() -> bool {
    return all_zero(2u * DEGREE, DEGREE);
}

// Does a part of the table. A kernel calls this at one place, or `add` at one, which does.
fn run(begin: u32, end: u32) {
    for (var at = begin; at < end; at += 1u) {
        let operation = program[at];
        let left = take((operation >> 8u) & 63u);
        let right = take((operation >> 14u) & 63u);
        var result: Element;
        switch operation & 3u {
            case 0u: {
                result = f_mul(left, right);
            }
            case 1u: {
                result = f_add(left, right);
            }
            default: {
                result = f_sub(left, right);
            }
        }
        put((operation >> 2u) & 63u, result);
    }
}

// Adds what stands in OTHER to the sum; neither is infinity. The arguments say where the table's parts for that kind of addition are.
fn add(compare: u32, finish: u32, end: u32) {
    var begin = compare;
    var behind = finish;
    var compared = false;
    loop {
        run(begin, behind);
        if (compared) {
            break;
        }
        compared = true;
        begin = finish;
        behind = end;
        if (all_zero(8u * DEGREE, DEGREE)) {
            if (all_zero(9u * DEGREE, DEGREE)) {
                begin = DOUBLE;
                behind = DOUBLE_END;
            } else {
                // Opposite points.
                clear(0u, POINT);
                break;
            }
        }
    }
}

// The same for what may be infinity, affine or not.
fn add_affine() {
    if (all_zero(OTHER, AFFINE)) {
        return;
    }
    if (sum_is_infinity()) {
        carry_over(OTHER, 0u, AFFINE);
        clear(AFFINE, AFFINE);
        put(2u * DEGREE, f_one());
        put(3u * DEGREE, f_one());
        return;
    }
    add(MIXED, MIXED_FINISH, MIXED_END);
}

fn add_point() {
    if (all_zero(OTHER + 2u * DEGREE, DEGREE)) {
        return;
    }
    if (sum_is_infinity()) {
        carry_over(OTHER, 0u, POINT);
        return;
    }
    add(FULL, FULL_FINISH, FULL_END);
}
