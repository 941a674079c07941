// Elements of Fr as storage has them: two vectors of four words.
fn joined(low: vec4<u32>, high: vec4<u32>) -> Element {
    return Element(low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w);
}

fn low_half(x: Element) -> vec4<u32> {
    return vec4<u32>(x[0], x[1], x[2], x[3]);
}

fn high_half(x: Element) -> vec4<u32> {
    return vec4<u32>(x[4], x[5], x[6], x[7]);
}
