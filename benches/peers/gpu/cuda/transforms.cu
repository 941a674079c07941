// Vectors of Fr on the card, sppark's transforms of them, and a quotient made of seven of these.

#include "peer.cuh"

#include <ntt/ntt.cuh>

// a = a b
__launch_bounds__(1024) __global__
void multiply(fr_t* a, const fr_t* b, size_t len)
{
    for (size_t i = threadIdx.x + (size_t)blockIdx.x * blockDim.x; i < len; i += (size_t)gridDim.x * blockDim.x)
        a[i] *= b[i];
}

// a = (a - c) z
__launch_bounds__(1024) __global__
void subtract_and_scale(fr_t* a, const fr_t* c, fr_t z, size_t len)
{
    for (size_t i = threadIdx.x + (size_t)blockIdx.x * blockDim.x; i < len; i += (size_t)gridDim.x * blockDim.x) {
        fr_t difference = a[i] - c[i];
        a[i] = difference * z;
    }
}

#ifndef __CUDA_ARCH__

// 1/(g^n - 1), the inverse of the vanishing polynomial on the coset.
static fr_t inverse_of_vanishing(uint32_t log_n)
{
    fr_t power = group_gen;
    while (log_n--)
        power ^= 2;
    return (power - fr_t::one()).reciprocal();
}

// Evaluations on the subgroup to evaluations on the coset.
static void to_coset(stream_t& stream, fr_t* data, uint32_t log_n)
{
    NTT::Base_dev_ptr(stream, data, log_n, NTT::InputOutputOrder::NR, NTT::Direction::inverse, NTT::Type::standard);
    NTT::Base_dev_ptr(stream, data, log_n, NTT::InputOutputOrder::RN, NTT::Direction::forward, NTT::Type::coset);
}

extern "C" {

// The pool keeps what it has, so that runs after the first allocate nothing.
RustError::by_value peer_start()
{
    return guarded([](const gpu_t& gpu) {
        cudaMemPool_t pool;
        CUDA_OK(cudaDeviceGetDefaultMemPool(&pool, gpu.cid()));
        uint64_t all = UINT64_MAX;
        CUDA_OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
    });
}

// Gives the pool's memory back.
RustError::by_value peer_trim()
{
    return guarded([](const gpu_t& gpu) {
        cudaMemPool_t pool;
        CUDA_OK(cudaDeviceGetDefaultMemPool(&pool, gpu.cid()));
        CUDA_OK(cudaMemPoolTrimTo(pool, 0));
    });
}

RustError::by_value peer_vector_open(fr_t** vector, size_t len)
{
    return guarded([=](const gpu_t&) { CUDA_OK(cudaMalloc(vector, len * sizeof(fr_t))); });
}

RustError::by_value peer_vector_upload(fr_t* vector, const fr_t* from, size_t len)
{
    return guarded([=](const gpu_t& gpu) {
        gpu.HtoD(vector, from, len);
        gpu.sync();
    });
}

RustError::by_value peer_vector_download(const fr_t* vector, fr_t* to, size_t len)
{
    return guarded([=](const gpu_t& gpu) {
        gpu.DtoH(to, vector, len);
        gpu.sync();
    });
}

RustError::by_value peer_vector_close(fr_t* vector)
{
    return guarded([=](const gpu_t&) { CUDA_OK(cudaFree(vector)); });
}

// Evaluates natural coefficients in natural order, `count` times one after the other.
RustError::by_value peer_evaluate(fr_t* vector, uint32_t log_n, uint32_t count)
{
    return guarded([=](const gpu_t& gpu) {
        for (uint32_t i = 0; i < count; i++)
            NTT::Base_dev_ptr(gpu, vector, log_n, NTT::InputOutputOrder::NN, NTT::Direction::forward,
                              NTT::Type::standard);
        gpu.sync();
    });
}

// The coefficients of (a b - c)/(X^n - 1) to `a`, `count` times one after the other. Streams and orders are
// those of supraseal-c2 0.1.2.
RustError::by_value peer_quotient(fr_t* a, fr_t* b, fr_t* c, uint32_t log_n, uint32_t count)
{
    return guarded([=](const gpu_t& gpu) {
        size_t len = (size_t)1 << log_n;
        fr_t z = inverse_of_vanishing(log_n);
        event_t done;
        for (uint32_t i = 0; i < count; i++) {
            to_coset(gpu[0], a, log_n);
            done.record(gpu[0]);
            to_coset(gpu[1], b, log_n);
            done.wait(gpu[1]);
            multiply<<<gpu.sm_count(), 1024, 0, gpu[1]>>>(a, b, len);
            done.record(gpu[1]);
            to_coset(gpu[2], c, log_n);
            done.wait(gpu[2]);
            subtract_and_scale<<<gpu.sm_count(), 1024, 0, gpu[2]>>>(a, c, z, len);
            NTT::Base_dev_ptr(gpu[2], a, log_n, NTT::InputOutputOrder::NN, NTT::Direction::inverse,
                              NTT::Type::coset);
            // The next round starts behind this one.
            done.record(gpu[2]);
            done.wait(gpu[0]);
            done.wait(gpu[1]);
        }
        CUDA_OK(cudaGetLastError());
        gpu.sync();
    });
}

}

#endif
