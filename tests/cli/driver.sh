# A build with CUDA without a driver, with one that is too old, and with one that finds no GPU: 69 and the reason if the GPU was
# requested by name, else the CPU is used. The drivers are simulated.
. "$(dirname "$0")/tap.sh"

grep -q '^#define HAVE_CUDA 1' "$B/config.h" || skip_all "a build without CUDA"
need cc
cc -shared -fPIC -o libcuda.so.1 "$SRC/tests/cuda/fakedriver.c" || exit 1
needs=$(ddm-train --version | sed -n 's/^ *cuda: \([0-9]*\).*/\1/p')

with() { # VERSION ANSWER COMMAND...
	version=$1 answer=$2
	shift 2
	LD_LIBRARY_PATH=$PWD FAKE_DRIVER_VERSION=$version FAKE_DRIVER_INIT=$answer "$@"
}
train="ddm-train --cluster 0 --model dit-nano/2 --steps 1 -o m none"

if ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
	skip "no driver" "there is one"
else
	check_exit 69 "no driver" $train --device cuda
	check_err "says so" 'no GPU can be used: there is no NVIDIA driver here'
fi
check_exit 69 "a driver that is too old" with 11040 0 $train --device cuda
check_err "says how old, and what is needed" "the NVIDIA driver here is for CUDA 11\.4 and this program needs one for CUDA $needs: install a newer"
check_exit 69 "one that finds no GPU" with "${needs}000" 100 $train --device cuda
check_err "says so" 'there is an NVIDIA driver, but no GPU that this process may see'
check_exit 69 "one that fails" with "${needs}000" 999 $train --device cuda:0
check_err "is quoted" 'no GPU can be used: unknown error'
for version in 0 11040 "${needs}000"; do
	check_exit 66 "auto goes on with the CPU beside a driver of $version" with $version 100 $train --device auto
	check_err "and finds no shards" 'none'
done
check_absent "nothing was made" m
