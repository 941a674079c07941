// Where the points of a sum are.
#pragma once

#include "curve.cuh"
#include "shape.cuh"

namespace {

// A list of points: those that sorted entries stand for, or, if `entries` is null, sums. Coordinates of
// points are neighbours; those of sums are two arrays, since the first half of an affine level reads x alone.
template <typename F> struct Points {
    typedef typename F::Stored Element;

    const Element *xs, *ys;
    const u32 *entries;

    // Where the coordinates are, and whether the negative is meant; null is infinity.
    struct Source {
        const Element *x, *y;
        bool negative;
    };

    DEVICE Source source(u32 at) const {
        if (!entries) return {xs + at, ys + at, false};
        u32 entry = entries[at];
        if (entry == PADDING) return {nullptr, nullptr, false};
        u64 place = 2 * (u64)(entry & ~NEGATIVE);
        return {xs + place, ys + place, (entry & NEGATIVE) != 0};
    }

    static DEVICE F reload_y(Source source) {
        F y = F::reload(source.y);
        if (source.negative) y = y.negate();
        return y;
    }

    static DEVICE Affine<F> fetch(Source source) {
        if (!source.x) return Affine<F>::infinity();
        Affine<F> p = {F::load(source.x), F::load(source.y)};
        if (source.negative) p.y = p.y.negate();
        return p;
    }
};

} // namespace
