#!/usr/bin/env bash
# Builds everything that is measured on a card, and lays it out in target/peers-gpu, a folder to take to a machine with one:
#
#     benches/peers/gpu/build.sh
#     target/peers-gpu/run.sh        # there
#
# PEERS_SM (default 90) lists the architectures to compile for, such as 80,90. CUDA's compiler is the one on the PATH, or else
# comes from PyPI. The programs run on machines whose C library is not older than this one's.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
work=$root/target/peers-gpu-build
out=$root/target/peers-gpu
export PEERS_SM=${PEERS_SM:-90}
mkdir -p "$work" "$out"

# CUDA's compiler, of the same toolkit as the headers and the runtime.
if ! command -v nvcc >/dev/null; then
    if [[ ! -x $work/cuda/nvidia/cu13/bin/nvcc ]]; then
        python3 -m pip install --quiet --no-deps --target "$work/cuda" \
            nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 \
            nvidia-cuda-cccl==13.0.85 nvidia-cuda-runtime==13.0.96
    fi
    export PATH=$work/cuda/nvidia/cu13/bin:$PATH
fi
nvcc=$(readlink -f "$(command -v nvcc)")
cuda=$(dirname "$(dirname "$nvcc")")

# The driver's library is the target machine's. Here one of its name is linked that has its symbols and nothing in them.
mkdir -p "$work/stub"
grep -ohE '\bcu[A-Z][A-Za-z0-9_]*' "$cuda/include/cuda.h" | sort -u | sed 's/.*/void &(void) {}/' |
    gcc -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$work/stub/libcuda.so" -x c -
export LIBRARY_PATH=$cuda/lib:$cuda/lib64:$work/stub

# Arguments for nvcc, one a line.
gencode() {
    for sm in ${PEERS_SM//,/ }; do
        printf '%s\n' "--generate-code=arch=compute_$sm,code=sm_$sm"
    done
}
# supraseal-c2 names its own architectures, which lack Hopper: this compiler names ours.
mkdir -p "$work/bin"
cat >"$work/bin/nvcc" <<EOF
#!/usr/bin/env bash
arguments=()
while [[ \$# -gt 0 ]]; do
    case \$1 in
        -gencode) shift ;;
        *) arguments+=("\$1") ;;
    esac
    shift
done
exec "$nvcc" $(gencode | tr '\n' ' ') "\${arguments[@]}"
EOF
chmod +x "$work/bin/nvcc"
# bellperson names its own likewise, but asks.
EC_GPU_CUDA_NVCC_ARGS="--optimize=6 --fatbin $(gencode | tr '\n' ' ')"
export EC_GPU_CUDA_NVCC_ARGS

# bellperson as it is published, but for one call that current compilers understand in another way.
if [[ ! -e $work/bellperson/Cargo.toml ]]; then
    manifest=$(cargo metadata --locked --format-version 1 --manifest-path "$here/../Cargo.toml" |
        python3 -c 'import json, sys
print(next(p["manifest_path"] for p in json.load(sys.stdin)["packages"] if p["name"] == "bellperson"))')
    rm -rf "$work/partial"
    cp -r "$(dirname "$manifest")" "$work/partial"
    patch --quiet --strip=1 --directory="$work/partial" <"$here/patches/bellperson-0.26.0.patch"
    mv "$work/partial" "$work/bellperson"
fi

# In their own folders, so that cargo finds the flags in .cargo/config.toml above them.
cd "$here"
CARGO_TARGET_DIR=$work/sppark cargo build --release --locked
strip -o "$out/sppark" "$work/sppark/release/peers-gpu"
cd proofs
# Through cc, that is, for supraseal-c2 and what it stands on.
export NVCC=$work/bin/nvcc
export CARGO_TARGET_DIR=$work/proofs
cargo build --release --locked --features bellperson
strip -o "$out/bellperson" "$work/proofs/release/peers-gpu-proofs"
cargo build --release --locked --features supraseal
strip -o "$out/supraseal" "$work/proofs/release/peers-gpu-proofs"
cp "$here/run.sh" "$out/run.sh"
echo "$out"
