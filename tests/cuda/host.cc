// The headers of cuda/ on a CPU: reads commands with operands as words of 32 bits in hexadecimal, prints results.
// `cargo test host_twin` compiles it, and compares with the host's own arithmetic.
#include "curve.cuh"
#include "loose.cuh"

#include <cstdio>
#include <cstdlib>
#include <cstring>

template <typename T> T read() {
    T value;
    u32 words[sizeof(T) / 4];
    for (u32 &word : words) {
        if (std::scanf("%x", &word) != 1) std::abort();
    }
    std::memcpy(&value, words, sizeof(T));
    return value;
}

template <typename T> void print(const T &value) {
    u32 words[sizeof(T) / 4];
    std::memcpy(words, &value, sizeof(T));
    for (u32 word : words) std::printf("%08x ", word);
}

template <typename F> void field() {
    F a = read<F>(), b = read<F>();
    print(a + b), print(a - b), print(a * b), print(a.square()), print(inverse(a)), print(a.negate());
    std::printf("\n");
}

template <typename F> void half_and_forms() {
    F a = read<F>();
    print(a.half()), print(a.from_montgomery()), print(a.to_montgomery());
    std::printf("\n");
}

// Of two elements below 2r.
void loose() {
    const u32 fourth_root[16] = FR_FOURTH_ROOT, half_sum[16] = FR_HALF_SUM, half_difference[16] = FR_HALF_DIFFERENCE;
    const Loose a = read<Fr>(), b = read<Fr>();
    const Fr w = b.reduced_if(true);
    const Factor factor = Factor::of(w);
    const Loose results[] = {
        a + b, a - b, a * factor, a * factor.negate_if(!w.is_zero()), a * SmallFactor(fourth_root),
        a * SmallFactor(half_sum), a * SmallFactor(half_difference),
    };
    for (const Loose &result : results) print(result.reduced_if(true));
    std::printf("\n");
}

template <typename F> void curve() {
    auto p = read<Affine<F>>(), q = read<Affine<F>>();
    auto sum = Xyzz<F>::from(p), twice = sum.twice(), both = sum;
    sum.add(q);
    both.add(twice);
    both.add(sum);
    print(sum), print(twice), print(both);
    Jacobian<F> chain = {p.x, p.y, F::one()};
    for (int i = 0; i < 3; i++) chain.double_in_place();
    print(Xyzz<F>::from(chain.over(inverse(chain.z))));
    std::printf("\n");
}

int main() {
    char command[16];
    while (std::scanf("%15s", command) == 1) {
        if (!std::strcmp(command, "fr")) field<Fr>();
        else if (!std::strcmp(command, "fp")) field<Fp>();
        else if (!std::strcmp(command, "fp2")) field<Fp2>();
        else if (!std::strcmp(command, "fr_forms")) half_and_forms<Fr>();
        else if (!std::strcmp(command, "fp_forms")) half_and_forms<Fp>();
        else if (!std::strcmp(command, "loose")) loose();
        else if (!std::strcmp(command, "g1")) curve<Fp>();
        else if (!std::strcmp(command, "g2")) curve<Fp2>();
        else std::abort();
    }
}
