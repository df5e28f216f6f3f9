# The architectures that configure chooses. The GPUs are simulated; the toolkit is that of the machine.
. "$(dirname "$0")/tap.sh"

mkdir bin
printf '#!/bin/sh\ncase $* in -L) echo "GPU 0: a stand-in" ;; *) cat caps ;; esac\n' >bin/nvidia-smi
chmod +x bin/nvidia-smi

# ARGUMENT...: prints the architectures that are built
chosen() {
	B=conf PATH=$PWD/bin:$PATH "$SRC/configure" --without-media "$@" >log 2>&1 || { cat log; return 1; }
	sed -n 's/^NVCC_ARCH =//p' conf/config.mak | tr ' ' '\n' | sed -n 's/.*code=//p' | paste -sd ' ' -
}
echo 9.0 >caps
chosen --with-cuda=yes >out 2>&1 || skip_all "no toolkit: $(tail -n 1 out)"

check_out "that of the GPU" sm_90a cat out
printf '8.6\n9.0\n8.6\n' >caps
check_out "of each kind, once" "sm_86 sm_90a" chosen
check_out "what is asked for instead" sm_80 chosen --cuda-arch=80
chosen --cpu=generic >generic
check_grep "of every generation, for any machine" '^sm_80 sm_90a .*compute_[0-9]+$' generic
printf '[N/A]\n' >caps
chosen >unknown
check_same "and where it cannot be told" generic unknown
check_exit 1 "one that the toolkit does not know" env B=conf "$SRC/configure" --without-media --with-cuda=yes --cuda-arch=12
check_err "named" 'does not know sm_12'
