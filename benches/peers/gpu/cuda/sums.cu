// sppark's multi-scalar multiplication with points and scalars on the card.

#include "peer.cuh"

#include <ec/jacobian_t.hpp>
#include <ec/xyzz_t.hpp>

typedef jacobian_t<fp_t> point_t;
typedef xyzz_t<fp_t> bucket_t;
typedef bucket_t::affine_t affine_t;

typedef jacobian_t<fp2_t> point_fp2_t;
typedef xyzz_t<fp2_t> bucket_fp2_t;
typedef bucket_fp2_t::affine_t affine_fp2_t;

typedef fr_t scalar_t;

// This instantiates the kernels for G1. The host's code below is not seen when the card's is compiled, so that its use
// of the kernels for G2 does not.
#include <msm/pippenger.cuh>

template __global__
void accumulate<bucket_fp2_t, affine_fp2_t::mem_t>(bucket_fp2_t::mem_t buckets[], uint32_t windows, uint32_t window_bits,
                                                   affine_fp2_t::mem_t points[], const vec2d_t<uint32_t> digits,
                                                   const vec2d_t<uint32_t> histogram, uint32_t stream);
template __global__
void batch_addition<bucket_fp2_t>(bucket_fp2_t::mem_t buckets[], const affine_fp2_t::mem_t points[], size_t len,
                                  const uint32_t digits[], const uint32_t& digits_len);
template __global__
void integrate<bucket_fp2_t>(bucket_fp2_t::mem_t buckets[], uint32_t windows, uint32_t window_bits, uint32_t bits);

#ifndef __CUDA_ARCH__

static_assert(sizeof(affine_t) == 96 && sizeof(affine_fp2_t) == 192, "affine points as in the Rust part");
static_assert(sizeof(point_t) == 144 && sizeof(point_fp2_t) == 288, "Jacobian points as in the Rust part");

typedef msm_t<bucket_t, point_t, affine_t, scalar_t> g1_sum_t;
typedef msm_t<bucket_fp2_t, point_fp2_t, affine_fp2_t, scalar_t> g2_sum_t;

// The constructor uploads the points and allocates the buckets, for the default window.
template<class sum_t, class affine>
static RustError::by_value open(sum_t** sum, const affine* points, size_t len)
{
    return guarded([=](const gpu_t& gpu) {
        *sum = new sum_t(points, len, sizeof(affine), CARD);
        gpu.sync();
    });
}

template<class sum_t, class affine, class point>
static RustError::by_value run(sum_t* sum, fr_t* scalars, size_t len, point* out)
{
    RustError error;
    RustError::by_value outer = guarded([&](const gpu_t&) {
        error = sum->invoke(*out, (const affine*)nullptr, len, dev_ptr_t<fr_t>(scalars, len), true);
    });
    return error.code ? error : outer;
}

template<class sum_t>
static RustError::by_value close(sum_t* sum)
{
    return guarded([=](const gpu_t&) { delete sum; });
}

extern "C" {

RustError::by_value peer_g1_open(g1_sum_t** sum, const affine_t* points, size_t len)
{   return open(sum, points, len);   }
RustError::by_value peer_g1_run(g1_sum_t* sum, fr_t* scalars, size_t len, point_t* out)
{   return run<g1_sum_t, affine_t>(sum, scalars, len, out);   }
RustError::by_value peer_g1_close(g1_sum_t* sum)
{   return close(sum);   }

RustError::by_value peer_g2_open(g2_sum_t** sum, const affine_fp2_t* points, size_t len)
{   return open(sum, points, len);   }
RustError::by_value peer_g2_run(g2_sum_t* sum, fr_t* scalars, size_t len, point_fp2_t* out)
{   return run<g2_sum_t, affine_fp2_t>(sum, scalars, len, out);   }
RustError::by_value peer_g2_close(g2_sum_t* sum)
{   return close(sum);   }

}

#endif
