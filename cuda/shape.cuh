// What the kernels of a multi-scalar multiplication know of each other.
#pragma once

#include "field.cuh"

namespace {

// The top bit of an entry or digit: the negative of the point.
const u32 NEGATIVE = 1u << 31;
// An entry that stands for no point: what fills a bucket up to a multiple of 2^levels entries.
const u32 PADDING = 0xffffffff;

// What all kernels of a group of windows know. Over raised bases a group has the buckets of one window, and so `windows` is 1.
struct Shape {
    u32 points;         // bases, and so scalars that count
    u32 window_bits;    // w
    u32 first_window;   // of the group
    u32 windows;        // in the group
    u32 fine_bits;      // of the bucket's number, sorted within a partition
    u32 levels;         // of affine additions
    // the bucket's upper bits
    DEVICE u32 coarse_bits() const { return window_bits - 1 - fine_bits; }
    DEVICE u32 partitions() const { return windows << coarse_bits(); }
    DEVICE u32 buckets() const { return windows << (window_bits - 1); }
};

// The largest i with starts[i] <= at, for starts that never fall and starts[0] <= at < starts[len].
DEVICE u32 find(const u32 *starts, u32 len, u32 at) {
    u32 low = 0, high = len;
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (starts[middle] <= at) low = middle;
        else high = middle;
    }
    return low;
}

} // namespace
