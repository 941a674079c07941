// Points of y^2 = x^3 + b over a coordinate field F: Fp for G1, Fp2 for G2. b does not occur in the formulas.
//
// Every addition is complete: infinity, P + P and P - P give what they must. Formulas are the Explicit-Formulas
// Database's for short Weierstrass curves with a = 0, in its letters.
#pragma once

#include "fp2.cuh"

// (x, y); (0, 0) is infinity, and on neither curve. The layout of the host and of keys.
template <typename F> struct Affine {
    struct Stored {
        typename F::Stored x, y;
    };

    F x, y;

    static DEVICE Affine infinity() { return {F::zero(), F::zero()}; }
    static DEVICE Affine load(const Stored *from) { return {F::load(&from->x), F::load(&from->y)}; }
    DEVICE void store(Stored *to) const { x.store(&to->x), y.store(&to->y); }
    DEVICE bool is_infinity() const { return x.is_zero() && y.is_zero(); }
};

// (X/Z^2, Y/Z^3), for chains of doublings: these need no Z, so that it may count from 1 wherever a chain goes on.
template <typename F> struct Jacobian {
    F x, y, z;

    // EFD dbl-2009-l, 2M + 5S. Z becomes 0 for infinity (0, 0) alone, which stays: no other point's double is infinity, since both
    // curves have an odd number of points.
    DEVICE void double_in_place() {
        z = z * y.twice();
        F a = x.square(), b = y.square(), c = b.square();
        F d = ((x + b).square() - a - c).twice(), e = a.twice() + a;
        x = e.square() - d.twice();
        y = e * (d - x) - c.twice().twice().twice();
    }

    // The affine point, from 1/Z.
    DEVICE Affine<F> over(const F &inverse) const {
        F square = inverse.square();
        return {x * square, y * (square * inverse)};
    }
};

// (X/ZZ, Y/ZZZ) with ZZ^3 = ZZZ^2; infinity is ZZ = 0.
template <typename F> struct Xyzz {
    struct Stored {
        typename F::Stored x, y, zz, zzz;
    };

    F x, y, zz, zzz;

    static DEVICE Xyzz infinity() { return {F::zero(), F::zero(), F::zero(), F::zero()}; }
    static DEVICE Xyzz load(const Stored *from) {
        return {F::load(&from->x), F::load(&from->y), F::load(&from->zz), F::load(&from->zzz)};
    }
    DEVICE void store(Stored *to) const { x.store(&to->x), y.store(&to->y), zz.store(&to->zz), zzz.store(&to->zzz); }
    DEVICE bool is_infinity() const { return zz.is_zero(); }

    static DEVICE Xyzz from(const Affine<F> &p) {
        if (p.is_infinity()) return infinity();
        return {p.x, p.y, F::one(), F::one()};
    }

    // EFD dbl-2008-s-1, 6M + 3S. For y = 0, a point of order 2, ZZ becomes 0: infinity, as it must.
    DEVICE Xyzz twice() const {
        F u = y.twice(), v = u.square(), w = u * v, s = x * v;
        F xx = x.square(), m = xx.twice() + xx;
        F x3 = m.square() - s.twice();
        return {x3, F::dot(m, s - x3, w.negate(), y), v * zz, w * zzz};
    }

    // EFD madd-2008-s, 8M + 2S.
    DEVICE void add(const Affine<F> &q) {
        if (q.is_infinity()) return;
        if (is_infinity()) {
            *this = from(q);
            return;
        }
        F p = q.x * zz - x, r = q.y * zzz - y; // P = U2 - X1, R = S2 - Y1
        if (p.is_zero()) {
            *this = r.is_zero() ? from(q).twice() : infinity();
            return;
        }
        F pp = p.square(), ppp = p * pp, qq = x * pp;
        finish(r, ppp, qq, y);
        zz = zz * pp;
        zzz = zzz * ppp;
    }

    // EFD add-2008-s, 12M + 2S.
    DEVICE void add(const Xyzz &q) {
        if (q.is_infinity()) return;
        if (is_infinity()) {
            *this = q;
            return;
        }
        F u1 = x * q.zz, s1 = y * q.zzz;
        F p = q.x * zz - u1, r = q.y * zzz - s1;
        if (p.is_zero()) {
            *this = r.is_zero() ? twice() : infinity();
            return;
        }
        F pp = p.square(), ppp = p * pp, qq = u1 * pp;
        finish(r, ppp, qq, s1);
        zz = zz * q.zz * pp;
        zzz = zzz * q.zzz * ppp;
    }

  private:
    // X3 = R^2 - PPP - 2Q, Y3 = R (Q - X3) - Y1 PPP
    DEVICE void finish(const F &r, const F &ppp, const F &qq, const F &y1) {
        x = r.square() - ppp - qq.twice();
        y = F::dot(r, qq - x, y1.negate(), ppp);
    }
};
