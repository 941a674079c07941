// What sums.cu and transforms.cu share: sppark's fields, and its errors as return values.

#pragma once

#include <ff/bls12-381-fp2.hpp>

#include <util/exception.cuh>
#include <util/gpu_t.cuh>
#include <util/rusterror.h>

// The card that everything runs on, in sppark's numbering.
constexpr int CARD = 0;

// Runs `work`; what sppark throws becomes the returned error.
template<class Work>
static RustError::by_value guarded(Work work)
{
    try {
        work(select_gpu(CARD));
    } catch (const cuda_error& error) {
        return RustError{error.code(), error.what()};
    }
    return RustError{cudaSuccess};
}
