// Compact vectors to plain ones; src/compact.rs has their form.
#include "field.cuh"

// 64 elements. Bit i of plane p is bit p of element i's tag; small and wide are where the block's values start.
struct Block {
    u64 planes[3];
    u32 small, wide;
};
static_assert(sizeof(Block) == 32, "as in src/compact.rs");

// Element i of the vector in the first `count` blocks, 0 behind them: to out[i], or as a factor of it, for i < len.
extern "C" __global__ void __launch_bounds__(256)
expand(const Block *__restrict__ blocks, u64 count, const u32 *__restrict__ small, const Fr *__restrict__ wide,
       u32 multiply, Fr *out, u64 len) {
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= len) return;
    Fr value = Fr::zero();
    if (i / 64 < count) {
        const Block block = blocks[i / 64];
        const u64 low = block.planes[0], middle = block.planes[1], high = block.planes[2];
        const u64 bit = 1ull << i % 64, before = bit - 1;
        const u64 is_small = high & ~middle, is_wide = high & middle;
        if (bit & is_wide) {
            value = wide[block.wide + __popcll(is_wide & before)];
        } else if (bit & is_small) {
            value.limbs[0] = small[block.small + __popcll(is_small & before)];
            value = value.to_montgomery().negate_if(bit & low);
        } else if (bit & (low | middle)) {
            value = Fr::one().negate_if(bit & middle);
        }
    }
    out[i] = multiply ? out[i] * value : value;
}
