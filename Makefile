# One Makefile for everything. `make V=1` shows the commands. Built files are in $(B), which mirrors the tree.
#
#	make                the programs; configures by itself with the defaults, installs nothing on the system
#	make deps           install what is missing to build and test (Debian, Ubuntu)
#	make check          deps, build, all tests; T=pattern: those whose name holds it
#	make demo           deps, build, the whole method on photographs of clothing; DATA=folder: on yours; see share/recipes/demo.mk
#	make demo-video     the same on clips that move; see share/recipes/video.mk
#	make bench          speed beside this machine's best, beside PyTorch, and against the baseline; BENCH=pattern: lines that hold it;
#	                    PEER_PYTHON=a Python with torch; THREADS=1 beside other work; make bench-baseline: keep the last whole run
#	make bench-quick    four kinds of work on one thread, beside the baseline of this processor, in a minute
#	make format         the sources as .clang-format says
#	make check-peers    live comparisons with the libraries whose formats we read: PEER_PYTHON=a Python with torch, transformers ..;
#	                    T=pattern
#	make check-cuda     every op, networks, training and sampling on the GPU beside the CPU; skipped without one; T=pattern
#	make bench-cuda     training, sampling, kernels and products on the GPU beside its peaks, measured in the same run
#	make cuda-bundle    both for any x86-64 with a Hopper GPU (CUDA_ARCH=LIST: others), as a file to run elsewhere: tests/cuda/README
#	make soak           a small campaign under random faults, TIME=1h for so long; see tests/faults/soaking.sh
#	make fuzz           the parsers under libFuzzer (clang), SECONDS=60 each; FUZZ=pattern: those whose name holds it
#	make install        programs, manual, libddm.a with its headers and ddm.pc to PREFIX (configure --prefix), below DESTDIR
#	make uninstall | dist | clean | distclean
SRC ?= .
B ?= build
Q = $(if $(V),,@)
VERSION := $(shell sed -n 's/^.define DDM_VERSION "\(.*\)"/\1/p' $(SRC)/lib/core/version.h)

# Builds from scratch use all processors unless -j is given.
JOBS = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))
# Goals that must work before configure has run.
BARE = deps check demo fuzz cuda-bundle dist clean distclean
ifneq ($(filter-out $(BARE),$(or $(MAKECMDGOALS),all)),)
include $(B)/config.mak
endif

WARN = -Wall -Wextra -Wshadow -Wstrict-prototypes
# No contraction: the same arithmetic from every compiler; the matrix product names its fused operations.
ALL_CFLAGS = -std=c11 -D_GNU_SOURCE $(WARN) $(CFLAGS) $(ARCH_FLAGS) $(HARD_FLAGS) -ffp-contract=off -ffile-prefix-map=$(SRC)/= \
	-I$(SRC) -I$(SRC)/lib -I$(B) -MD -MP -pthread
NVCC_FLAGS = -std=c++17 -O3 $(NVCC_ARCH) -Xcompiler -fPIE,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics \
	-I$(SRC) -I$(SRC)/lib -I$(B) -MD -MP

# The messages of TensorBoard's and ONNX's files, which protobuf-c's compiler turns into C.
MESSAGES = $(addprefix $(B)/lib/file/,tfevents onnx)

# The library, by layer. The kernels are compiled twice, real = float and real = double; float in two flavours where the compiler may not use AVX2
# and fused multiply-adds (kernels/flavour.h).
LIB_C = $(wildcard $(SRC)/lib/*/*.c)
KERN_C = $(wildcard $(SRC)/kernels/*.c)
ONCE_C = $(filter $(addprefix $(SRC)/kernels/,array.c cpu.c device.c deviceopen.c flavour.c flavourtable.c peak.c probe.c profile.c \
	compact.c compactisa.c compactrun.c compact_avx512.c compact_amx.c gemm_bf16.c attention_bf16.c cublaslt.c cublaslt_choose.c \
	cublaslt_file.c cublaslt_log.c cublaslt_open.c cudnn.c cudnn_file.c cudnn_graph.c cudnn_open.c tuning.c),$(KERN_C))
FLOAT_C = $(filter-out $(ONCE_C),$(KERN_C))
TWICE_C = $(filter-out %/compact_portable.c,$(FLOAT_C))
FLAVOUR = $(if $(filter 1,$(FLAVOURS)),base fma,f32)
CU = $(if $(filter 1,$(CUDA)),$(wildcard $(SRC)/kernels/*.cu))
LIB_O = $(LIB_C:$(SRC)/%.c=$(B)/%.o) $(ONCE_C:$(SRC)/%.c=$(B)/%.o) $(foreach f,$(FLAVOUR),$(FLOAT_C:$(SRC)/%.c=$(B)/%.$(f).o)) \
	$(TWICE_C:$(SRC)/%.c=$(B)/%.f64.o) \
	$(CU:$(SRC)/%.cu=$(B)/%.cu.o) $(if $(PROTOBUF),$(MESSAGES:=.pb-c.o))

# The programs; what they share is libcmd.a. Only the decoder that ddm-ingest starts and the encoder that ddm-play starts link FFmpeg.
MAIN_C = $(wildcard $(SRC)/cmd/ddm-*.c)
PROG_C = $(if $(filter 0,$(MEDIA)),$(filter-out %/ddm-ingest.c,$(MAIN_C)),$(MAIN_C))
INGEST_C = $(if $(filter 0,$(MEDIA)),$(wildcard $(SRC)/cmd/ingest_*.c))
CODER_C = $(SRC)/cmd/ingest_decoder.c $(SRC)/cmd/film_encoder.c
CODERS = $(if $(filter 0,$(MEDIA)),,$(B)/ingest-decoder $(B)/film-encoder)
# MPI's engine, which a process loads when it is one of several ranks (lib/comm/engine.h), and NCCL's, which ranks on GPUs load
# (lib/comm/deviceengine.h).
ENGINE = $(if $(filter 1,$(MPI)),$(B)/mpi-engine.so) $(if $(filter 11,$(CUDA)$(NCCL)),$(B)/nccl-engine.so)
CMD_C = $(filter-out $(MAIN_C) $(INGEST_C) $(CODER_C),$(wildcard $(SRC)/cmd/*.c))
CMD_O = $(CMD_C:$(SRC)/%.c=$(B)/%.o)
PROG_O = $(PROG_C:$(SRC)/%.c=$(B)/%.o) $(if $(CODERS),$(CODER_C:$(SRC)/%.c=$(B)/%.o))
PROGS = $(PROG_C:$(SRC)/cmd/%.c=$(B)/%)
LIBS = $(B)/libcmd.a $(B)/libddm.a

TEST_C = $(wildcard $(SRC)/tests/unit/test_*.c $(SRC)/tests/op/test_*.c $(SRC)/tests/fuzz/fuzz_*.c)
TESTS = $(TEST_C:$(SRC)/%.c=$(B)/%)
FUZZERS = $(filter $(B)/tests/fuzz/%,$(TESTS))
BENCH_C = $(wildcard $(SRC)/tests/bench/bench_*.c)
BENCHES = $(BENCH_C:$(SRC)/%.c=$(B)/%)
PEER_C = $(wildcard $(SRC)/tests/peers/*.c)
PEERS = $(PEER_C:$(SRC)/%.c=$(B)/%)

# The tests on the GPU: the kernels' own, those of tests/op/test_emulated* with the GPU in the place of the emulation, and those of
# tests/cuda. In a build without CUDA they hold the emulated kernels, so that they can be tried (DDM_TEST_DEVICE=far or emulated).
REMOTE_C = $(filter-out %/test_emulated_training.c %/test_emulated_encoders.c %/test_emulated_kmeans.c %/test_emulated_runtime.c \
	%/test_emulated_residual.c,\
	$(wildcard $(SRC)/tests/op/test_emulated*.c))
REMOTE = $(REMOTE_C:$(SRC)/tests/op/%.c=$(B)/tests/cuda/%)
WHOLE = $(patsubst $(SRC)/%.c,$(B)/%,$(wildcard $(SRC)/tests/cuda/test_*.c))
CUDA_BENCH = $(patsubst $(SRC)/%.c,$(B)/%,$(wildcard $(SRC)/tests/cuda/bench_*.c))
CUDA_TESTS = $(REMOTE) $(WHOLE)
CPU_PART = $(addprefix $(B)/tests/bench/,bench_step bench_sample bench_data)

# Kinds of x86-64 for which the float kernels are compiled once more (below), but not with sanitizers, under which no test uses them.
PORTABLE_ARCH = $(if $(filter x86_64-%,$(shell $(CC) -dumpmachine)),$(if $(filter -fsanitize=%,$(CFLAGS)),,x86-64 x86-64-v3))
PORTABLE_C = $(FLOAT_C) $(addprefix $(SRC)/kernels/,flavour.c flavourtable.c)
PORTABLE_O = $(foreach a,$(PORTABLE_ARCH),$(PORTABLE_C:$(SRC)/kernels/%.c=$(B)/tests/portable/$(a)/%.o))
PORTABLE = $(foreach a,$(PORTABLE_ARCH),$(addprefix $(B)/tests/portable/$(a)/,ddm-train ddm-route-train))
ODD = $(if $(PORTABLE_ARCH),$(B)/tests/portable/odd/ddm-audit)

# The same programs on a stand-in for the CUDA runtime and for cuBLASLt, for tests/cli/cuda-order.sh.
STANDIN = $(patsubst $(B)/tests/cuda/%,$(B)/tests/standin/%,$(CUDA_TESTS) $(CUDA_BENCH))
STANDIN_LT = $(B)/tests/standin/libcublasLt.so.13
# And programs whose ranks work on the stand-in's GPUs, tests/cli/ranks-gpu.sh, also by one for NCCL: tests/cli/nccl.sh.
STANDIN_PROGS = $(addprefix $(B)/tests/standin/,ddm-train ddm-sample ddm-encode)
STANDIN_NCCL = $(if $(filter 1,$(NCCL)),$(addprefix $(B)/tests/standin/,nccl-engine.so libnccl.so.2))
STANDIN_MPI = $(if $(filter 1,$(MPI)),$(B)/tests/standin/mpi-engine.so)
STANDIN_O = $(addprefix $(B)/tests/standin/,cuda.o cublaslt_cuda.o deviceopen.o standin.o) $(B)/tests/op/fakecuda.o

OBJECTS = $(LIB_O) $(CMD_O) $(PROG_O) $(TESTS:=.o) $(BENCHES:=.o) $(PEERS:=.o) $(B)/tests/op/optest.o $(B)/tests/op/fakelt.o $(B)/tests/op/fakednn.o \
	$(B)/tests/op/fakecuda.o $(B)/tests/op/emulatedcuda.o $(EMULATED) $(STANDIN_O) \
	$(B)/tests/bench/meter.o $(CUDA_TESTS:=.o) $(CUDA_BENCH:=.o) $(B)/tests/cuda/main.o $(B)/tests/cuda/remote.o $(B)/tests/cuda/wholestep.o \
	$(PORTABLE_O) $(if $(PORTABLE_ARCH),$(B)/tests/portable/odd/norm.o)

all: $(LIBS) $(PROGS) $(CODERS) $(ENGINE)
tests: $(TESTS) $(PORTABLE) $(ODD) $(B)/tests/faults.so $(B)/tests/hold.so $(B)/tests/clockjump.so $(B)/tests/soak standin

$(B)/libddm.a: $(LIB_O)
$(B)/libcmd.a: $(CMD_O)
$(LIBS):
	@echo "  AR $@"
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# Nobody reads the flags of the floating-point unit or errno: branches become selections, and loops vectors. No result changes. A vector
# wider than the machine's is passed in ways that differ between compilers (psabi); none is passed out of a file.
$(addprefix $(B)/lib/,core/rng.o file/resize.o file/yuv.o data/clipscores.o data/flow.o data/scenes.o cluster/kmeans_assign.o cluster/kmeans.o \
	cluster/kmeans_quality.o cluster/points.o cluster/linkage.o cluster/topeigen.o \
	metric/distances.o metric/gram.o metric/moments.o metric/sketch.o) \
	$(B)/tests/op/% $(B)/tests/bench/%: EXTRA = -O3 -fno-trapping-math -fno-math-errno -Wno-psabi
$(B)/kernels/%: EXTRA = -O3 -fno-trapping-math -fno-math-errno -Wno-psabi $(VECTOR_FLAGS)
# gcc 12's straight-line vectoriser fuses products and sums into fmaddsub in spite of -ffp-contract=off; hashes depend on the last bit.
$(B)/lib/cluster/imagehash.o: EXTRA = -fno-tree-slp-vectorize
$(B)/lib/file/font.o: EXTRA = $(FREETYPE_CFLAGS)
$(MESSAGES:=.o) $(MESSAGES:=.pb-c.o): EXTRA = -I$(B)/lib
$(if $(PROTOBUF),$(foreach m,$(MESSAGES),$(eval $(m).o $(m).pb-c.o: $(m).pb-c.c)))
# gcc's straight-line vectoriser takes the product's accumulators, vectors already, out of their registers (half the speed on SSE2).
$(B)/kernels/gemm.% $(B)/kernels/compact%: EXTRA = -O3 -fno-trapping-math -fno-math-errno -Wno-psabi -fno-tree-slp-vectorize \
	$(TILE_FLAGS) $(VECTOR_FLAGS)

$(B)/%.o: $(SRC)/%.c $(B)/flags
	@mkdir -p $(@D)
	@echo "  CC $<"
	$(Q)$(CC) $(ALL_CFLAGS) $(EXTRA) -c -o $@ $<
$(MESSAGES:=.pb-c.c): $(B)/%.pb-c.c: $(SRC)/%.proto
	@mkdir -p $(@D)
	@echo "  PROTOC $<"
	$(Q)protoc-c --proto_path=$(<D) --c_out=$(@D) $<
$(MESSAGES:=.pb-c.o): %.o: %.c $(B)/flags
	@echo "  CC $<"
	$(Q)$(CC) $(ALL_CFLAGS) $(EXTRA) -c -o $@ $<
$(B)/%.f32.o: $(SRC)/%.c $(B)/flags
	@mkdir -p $(@D)
	@echo "  CC $< (float)"
	$(Q)$(CC) $(ALL_CFLAGS) $(EXTRA) -DREAL_IS_FLOAT -c -o $@ $<
$(B)/%.base.o: $(SRC)/%.c $(B)/flags
	@mkdir -p $(@D)
	@echo "  CC $< (float, any processor)"
	$(Q)$(CC) $(ALL_CFLAGS) $(EXTRA) -DREAL_IS_FLOAT -DFLAVOUR=base -include $(SRC)/kernels/flavour.h -c -o $@ $<
$(B)/%.fma.o: $(SRC)/%.c $(B)/flags
	@mkdir -p $(@D)
	@echo "  CC $< (float, AVX2 and FMA)"
	$(Q)$(CC) $(ALL_CFLAGS) $(EXTRA) -mavx2 -mfma -DREAL_IS_FLOAT -DFLAVOUR=fma \
		-include $(SRC)/kernels/flavour.h -c -o $@ $<
$(B)/%.f64.o: $(SRC)/%.c $(B)/flags
	@mkdir -p $(@D)
	@echo "  CC $< (double)"
	$(Q)$(CC) $(ALL_CFLAGS) $(EXTRA) -DREAL_IS_DOUBLE -c -o $@ $<
# By far the longest to compile: their architectures at the same time.
$(addprefix $(B)/kernels/,attention.cu.o attention_grad.cu.o attention_head.cu.o conv.cu.o): EXTRA_NVCC = --threads 0
# Kernels that may spill registers: without -Werror (see configure), spills are only reported. groupnorm spills because two of its blocks share a
# multiprocessor, which gains more time than the spills cost. attention_head spills a counter that it reads once a turn; a smaller tile is slower.
$(B)/kernels/groupnorm.cu.o $(B)/kernels/attention_head.cu.o: private SPILLS = -Xptxas -warn-spills
# Tests compare these with the CPU to the bit, so nvcc must not contract a product and a sum into one rounding. The emulation of all others is
# contracted where the processor can: a kernel that belongs here, and is not, fails its test there.
UNCONTRACTED = guide muon noise optimizer sampling
$(UNCONTRACTED:%=$(B)/kernels/%.cu.o): EXTRA_NVCC = -fmad=false

$(B)/%.cu.o: $(SRC)/%.cu $(B)/flags
	@mkdir -p $(@D)
	@echo "  NVCC $<"
	$(Q)$(NVCC) $(NVCC_FLAGS) $(SPILLS) $(EXTRA_NVCC) -c -o $@ $<

$(PROGS): $(B)/ddm-%: $(B)/cmd/ddm-%.o $(LIBS) $(B)/flags
	@echo "  LD $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $< $(LIBS) $(if $(filter %/ddm-ingest,$@),,$(CUDA_LIBS)) $(LDLIBS)
$(B)/ingest-decoder: $(B)/cmd/ingest_decoder.o
$(B)/film-encoder: $(B)/cmd/film_encoder.o
$(CODERS): $(LIBS) $(B)/flags
	@echo "  LD $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(B)/cmd/$(subst -,_,$(notdir $@)).o $(LIBS) $(MEDIA_LIBS) $(LDLIBS)
$(B)/mpi-engine.so: $(SRC)/lib/comm/mpi/engine.c $(SRC)/lib/comm/engine.h $(B)/flags
	@mkdir -p $(@D)
	@echo "  LD $@"
	$(Q)$(CC) $(filter-out -MD -MP -fPIE,$(ALL_CFLAGS)) $(MPI_CFLAGS) -fPIC -fvisibility=hidden -shared $(filter-out -pie,$(LDFLAGS)) \
		-o $@ $< $(MPI_LIBS)
$(B)/nccl-engine.so $(B)/tests/standin/nccl-engine.so: $(SRC)/lib/comm/nccl/ncclengine.c $(SRC)/lib/comm/deviceengine.h $(B)/flags
	@mkdir -p $(@D)
	@echo "  LD $@"
	$(Q)$(CC) $(filter-out -MD -MP -fPIE,$(ALL_CFLAGS)) $(NCCL_CFLAGS) \
		-DNCCL_PATH='"$(if $(filter %/tests/standin,$(@D)),libnccl.so.2,$(NCCL_PATH))"' -fPIC -fvisibility=hidden -shared \
		$(filter-out -pie,$(LDFLAGS)) -o $@ $<
$(B)/cmd/ingest_child.o $(B)/cmd/film_child.o $(B)/cmd/ranks.o: EXTRA = -DLIBEXECDIR='"$(LIBEXECDIR)"'
$(filter $(B)/tests/op/%,$(TESTS)): $(B)/tests/op/optest.o
# The CUDA kernels as ordinary C++, for tests without a GPU; what talks to the driver is not among them.
EMULATING = $(CXX) -x c++ -std=c++17 -O1 -g -Wall -Wextra $(HARD_FLAGS) -ffp-contract=off -fno-exceptions -fno-rtti \
	-fno-threadsafe-statics -I$(SRC) -I$(SRC)/lib -I$(B) -MD -MP -include $(SRC)/tests/op/emulate.h
# gcc contracts only among its expensive optimizations.
CONTRACTED = $(if $(shell $(CC) $(ARCH_FLAGS) -dM -E -x c /dev/null | grep -E '__FMA__|__ARM_FEATURE_FMA'),$(ARCH_FLAGS) \
	-ffp-contract=fast -fexpensive-optimizations)
EMULATED = $(patsubst $(SRC)/kernels/%.cu,$(B)/tests/op/emulated-%.o,\
	$(filter-out %/cuda.cu %/cublaslt_cuda.cu %/cudnn_cuda.cu,$(wildcard $(SRC)/kernels/*.cu)))
$(filter $(B)/tests/op/test_emulated% $(B)/tests/op/test_product $(B)/tests/op/test_cudnn,$(TESTS)): $(EMULATED)
$(B)/tests/op/test_product $(B)/tests/op/test_cublaslt: $(B)/tests/op/fakelt.o
$(B)/tests/op/test_cudnn: $(B)/tests/op/fakednn.o
$(B)/tests/op/test_emulated_residual: $(B)/tests/cuda/wholestep.o
# The CUDA device on a stand-in for the runtime.
$(B)/tests/op/test_emulated_runtime: $(B)/tests/op/fakecuda.o $(B)/tests/op/emulatedcuda.o
$(B)/tests/op/emulatedcuda.o: $(SRC)/kernels/cuda.cu $(SRC)/tests/op/emulate.h $(SRC)/tests/op/fakecuda.h $(B)/flags
	@mkdir -p $(@D)
	@echo "  CXX $<"
	$(Q)$(EMULATING) -Ddevice_cuda=device_fake_cuda -Ddevice_cuda_count=device_fake_cuda_count -I$(SRC)/tests/op/fakecuda \
		-include $(SRC)/tests/op/fakecuda.h -c -o $@ $<
$(B)/tests/op/emulated-%.o: $(SRC)/kernels/%.cu $(SRC)/tests/op/emulate.h $(SRC)/tests/op/emulate_mma.h $(B)/flags
	@mkdir -p $(@D)
	@echo "  CXX $<"
	$(Q)$(EMULATING) $(if $(filter $*,$(UNCONTRACTED)),,$(CONTRACTED)) -include $(SRC)/tests/op/emulate_mma.h -c -o $@ $<
$(BENCHES): $(B)/tests/bench/meter.o
$(filter %/test_sandbox,$(TESTS)): MORE = $(if $(filter 1,$(MEDIA)),-lseccomp)
$(FUZZERS): MORE = $(FUZZ_LDFLAGS)
$(FUZZERS:=.o): EXTRA = $(if $(FUZZ_LDFLAGS),-DFUZZER)
# Without the sanitizers, which have allocators of their own: the test that preloads it is skipped there.
FAULTS = $(addprefix $(SRC)/tests/faults/,sweep.c memory.c disk.c)
$(B)/tests/faults.so: $(FAULTS) $(SRC)/tests/faults/faults.h $(SRC)/cmd/ingest.h $(B)/flags
	@mkdir -p $(@D)
	@echo "  LD $@"
	$(Q)$(CC) -std=c11 $(WARN) -O2 -fPIC -shared -I$(SRC) -I$(SRC)/lib -o $@ $(FAULTS)
$(B)/tests/soak: $(addprefix $(SRC)/tests/faults/,soak.c disk.c faults.h) $(B)/flags
	@mkdir -p $(@D)
	@echo "  LD $@"
	$(Q)$(CC) -std=c11 $(WARN) -O2 -I$(SRC) -o $@ $(filter %.c,$^)
$(B)/tests/hold.so $(B)/tests/clockjump.so: $(B)/tests/%.so: $(SRC)/tests/faults/%.c $(B)/flags
	@mkdir -p $(@D)
	@echo "  LD $@"
	$(Q)$(CC) -std=c11 $(WARN) -O2 -fPIC -shared -o $@ $<
$(TESTS) $(BENCHES) $(PEERS): %: %.o $(LIBS) $(B)/flags
	@echo "  LD $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(LIBS) $(MORE) -lcmocka $(CUDA_LIBS) $(LDLIBS)

$(REMOTE:=.o): $(B)/tests/cuda/%.o: $(SRC)/tests/op/%.c $(B)/flags
	@mkdir -p $(@D)
	@echo "  CC $< (cuda)"
	$(Q)$(CC) $(ALL_CFLAGS) -Dmain=tests_main -c -o $@ $<
$(REMOTE): $(B)/tests/op/optest.o $(B)/tests/cuda/main.o
$(B)/tests/cuda/test_whole $(B)/tests/cuda/test_cross: $(B)/tests/cuda/wholestep.o
$(CUDA_TESTS) $(CUDA_BENCH): $(B)/tests/cuda/remote.o $(if $(filter 1,$(CUDA)),,$(EMULATED))
$(CUDA_TESTS) $(CUDA_BENCH): %: %.o $(LIBS) $(B)/flags
	@echo "  LD $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(LIBS) -lcmocka $(CUDA_LIBS) $(LDLIBS)

$(B)/tests/cuda/nccl-engine.so: $(B)/nccl-engine.so
	$(Q)cp $< $@
CUDA_ENGINE = $(if $(filter 11,$(CUDA)$(NCCL)),$(B)/tests/cuda/nccl-engine.so)
cuda-tests: $(CUDA_TESTS) $(CUDA_BENCH) $(CUDA_ENGINE)

# Before the library, whose own device_open and, in a build with CUDA, kernels are then not linked. The stand-in for cuBLASLt is opened at run
# time and takes functions of the program.
FAKED = -I$(SRC)/tests/op/fakecuda -include $(SRC)/tests/op/fakecuda.h
$(B)/tests/standin/cuda.o $(B)/tests/standin/cublaslt_cuda.o: $(B)/tests/standin/%.o: $(SRC)/kernels/%.cu $(SRC)/tests/op/emulate.h \
		$(SRC)/tests/op/fakecuda.h $(SRC)/tests/op/fakecuda/cublasLt.h $(B)/flags
	@mkdir -p $(@D)
	@echo "  CXX $< (stand-in)"
	$(Q)$(EMULATING) $(FAKED) -c -o $@ $<
$(B)/tests/standin/deviceopen.o: $(SRC)/kernels/deviceopen.c $(B)/flags
	@mkdir -p $(@D)
	@echo "  CC $< (stand-in)"
	$(Q)$(CC) $(ALL_CFLAGS) $(if $(filter 1,$(CUDA)),,-DHAVE_CUDA) -c -o $@ $<
$(B)/tests/standin/standin.o: $(SRC)/tests/cuda/standin.c $(B)/flags
	@mkdir -p $(@D)
	@echo "  CC $<"
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<
STANDIN_LT_C = $(SRC)/tests/cuda/standin_lt.c $(SRC)/tests/op/fakelt.c
$(STANDIN_LT): $(STANDIN_LT_C) $(SRC)/tests/op/fakelt.h $(SRC)/tests/op/fakecuda.h $(SRC)/kernels/cublaslt.h $(B)/flags
	@mkdir -p $(@D)
	@echo "  LD $@"
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE $(WARN) -O3 $(ARCH_FLAGS) -ffp-contract=off -fPIC -shared -I$(SRC) -I$(SRC)/lib -I$(B) -o $@ \
		$(STANDIN_LT_C) -lcmocka
$(REMOTE:$(B)/tests/cuda/%=$(B)/tests/standin/%): $(B)/tests/op/optest.o $(B)/tests/cuda/main.o
$(B)/tests/standin/test_whole $(B)/tests/standin/test_cross: $(B)/tests/cuda/wholestep.o
$(STANDIN): $(B)/tests/standin/%: $(B)/tests/cuda/%.o $(B)/tests/cuda/remote.o $(EMULATED) $(STANDIN_O) $(LIBS) $(B)/flags
	@echo "  LD $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -rdynamic -o $@ $(filter %.o,$^) $(LIBS) -lcmocka $(LDLIBS)

$(STANDIN_PROGS): $(B)/tests/standin/%: $(B)/cmd/%.o $(EMULATED) $(STANDIN_O) $(LIBS) $(B)/flags
	@echo "  LD $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -rdynamic -o $@ $(filter %.o,$^) $(LIBS) -lcmocka $(LDLIBS)
$(B)/tests/standin/mpi-engine.so: $(B)/mpi-engine.so
	$(Q)cp $< $@
$(B)/tests/standin/libnccl.so.2: $(SRC)/tests/cuda/standin_nccl.c $(B)/flags
	@mkdir -p $(@D)
	@echo "  LD $@"
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE $(WARN) -O2 $(NCCL_CFLAGS) -fPIC -shared -o $@ $<

# The trainers with float kernels for processors without and with AVX2, for tests/cli/portable.sh, which compares what they train with what the
# build's own do. The kernels come before the library's. Less optimized, which is faster to compile and must not change a bit either.
define PORTABLE_RULES
$(B)/tests/portable/$(1)/%.o: $(SRC)/kernels/%.c $(B)/flags
	@mkdir -p $$(@D)
	@echo "  CC $$< ($(1))"
	$$(Q)$$(CC) $$(filter-out -march=% -mcpu=%,$$(ALL_CFLAGS)) -march=$(1) -O1 -fno-trapping-math -fno-math-errno -Wno-psabi -DONE_FLAVOUR \
		-DREAL_IS_FLOAT -c -o $$@ $$<
$(addprefix $(B)/tests/portable/$(1)/,ddm-train ddm-route-train): $(B)/tests/portable/$(1)/%: $(B)/cmd/%.o \
		$(filter $(B)/tests/portable/$(1)/%,$(PORTABLE_O)) $(LIBS)
	@echo "  LD $$@"
	$$(Q)$$(CC) $$(CFLAGS) $$(LDFLAGS) -o $$@ $$(filter %.o,$$^) $$(LIBS) $$(CUDA_LIBS) $$(LDLIBS)
endef
$(foreach a,$(PORTABLE_ARCH),$(eval $(call PORTABLE_RULES,$(a))))
# An auditor whose NORM is not portable, because the compiler fuses what it likes: tests/cli/trace.sh finds that node.
ODD_O = $(filter-out %/norm.o,$(filter $(B)/tests/portable/x86-64-v3/%,$(PORTABLE_O)))
$(B)/tests/portable/odd/norm.o: $(SRC)/kernels/norm.c $(B)/flags
	@mkdir -p $(@D)
	@echo "  CC $< (fused at will)"
	$(Q)$(CC) $(filter-out -march=% -mcpu=% -ffp-contract=%,$(ALL_CFLAGS)) -march=x86-64-v3 -O2 -ffp-contract=fast -fno-math-errno -Wno-psabi \
		-DREAL_IS_FLOAT -c -o $@ $<
$(B)/tests/portable/odd/ddm-audit: $(B)/cmd/ddm-audit.o $(B)/tests/portable/odd/norm.o $(ODD_O) $(LIBS)
	@echo "  LD $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(LIBS) $(CUDA_LIBS) $(LDLIBS)

# With the processors' benchmarks, which the order ends with.
standin: $(STANDIN) $(STANDIN_LT) $(STANDIN_PROGS) $(STANDIN_NCCL) $(STANDIN_MPI) $(CPU_PART)

check-cuda: cuda-tests
	$(Q)BIN=$(B)/tests/cuda $(SRC)/tests/cuda/run.sh check $(T)

bench-cuda: cuda-tests
	$(Q)BIN=$(B)/tests/cuda $(SRC)/tests/cuda/run.sh bench $(BENCH)

# Stripped, with every shared library but the C library's own, so that it is small and needs nothing installed.
BUNDLE = $(B)/cuda-bundle
# The processors' part is there twice, because machines with such GPUs have AVX-512, and the kernels take what the compiler may use.
cuda-bundle:
	$(Q)B=$(B)-avx512 CFLAGS='-O2 -g -march=x86-64-v4' $(SRC)/configure --with-blas=builtin --without-media --with-cuda=no --cpu=generic
	$(Q)$(MAKE) --no-print-directory B=$(B)-avx512 cpu-part
	$(Q)B=$(B)-bundle $(SRC)/configure --with-blas=builtin --without-media --with-cuda=yes --cuda-arch=$(or $(CUDA_ARCH),90a) --cpu=generic
	$(Q)$(MAKE) --no-print-directory B=$(B)-bundle AVX512=$(B)-avx512 bundle

# The processors' benchmarks, and ddm-shard, which they start, are in cpu as in a build.
cpu-part: $(CPU_PART) $(B)/ddm-shard
bundle: cuda-tests cpu-part
	$(Q)rm -rf $(BUNDLE)
	$(Q)mkdir -p $(BUNDLE)/bin $(BUNDLE)/lib
	$(Q)cp $(SRC)/tests/cuda/run.sh $(wildcard $(SRC)/tests/cuda/*.py) $(BUNDLE)
	$(Q)for p in $(CUDA_TESTS) $(CUDA_BENCH) $(CUDA_ENGINE); do strip -o $(BUNDLE)/bin/$${p##*/} $$p || exit 1; done
	$(Q)for cpu in cpu:$(B) cpu-avx512:$(AVX512); do \
		mkdir -p $(BUNDLE)/$${cpu%%:*}/tests/bench; \
		for p in $(CPU_PART:$(B)/%=%) ddm-shard; do strip -o $(BUNDLE)/$${cpu%%:*}/$$p $${cpu#*:}/$$p || exit 1; done; done
	$(Q)ldd $(CUDA_TESTS) $(CUDA_BENCH) $(CPU_PART) $(B)/ddm-shard | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | sort -u | \
		grep -Ev '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so' | while read -r lib; do \
			strip -o $(BUNDLE)/lib/$${lib##*/} $$lib || exit 1; done
	$(Q)tar -C $(B) -cf - cuda-bundle | gzip >$(BUNDLE).tar.gz
	$(Q)LD_LIBRARY_PATH=$(BUNDLE)/lib ldd $(BUNDLE)/bin/* $(BUNDLE)/cpu*/ddm-shard $(BUNDLE)/cpu*/tests/bench/* | grep 'not found' && \
		{ echo "$(BUNDLE): libraries are missing" >&2; exit 1; } || :
	@du -m $(BUNDLE).tar.gz | sed 's|\([0-9]*\).*|  $(BUNDLE).tar.gz: \1 MiB|'

# Changes when a flag does; every object depends on it. Where the tree lies does not count.
FLAGS = $(filter-out -I% -ffile-prefix-map=%,$(CC) $(ALL_CFLAGS) $(NVCC) $(NVCC_FLAGS) $(SPILLS)) $(LDFLAGS) $(MEDIA_LIBS) \
	$(CUDA_LIBS) $(LDLIBS)
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(FLAGS)' | cmp -s - $@ || printf '%s\n' '$(FLAGS)' >$@

$(B)/config.mak: $(SRC)/configure
	$(Q)B=$(B) $(SRC)/configure $(CONFIGURE_ARGS)

deps:
	$(Q)B=$(B) $(SRC)/share/deps.sh $(CONFIGURE_ARGS)

check:
	$(Q)B=$(B) $(SRC)/share/deps.sh --quick
	$(Q)$(MAKE) --no-print-directory $(JOBS) check-built

check-built: all tests
	$(Q)B=$(B) $(SRC)/tests/run $(T)

# Rewrites the sources as .clang-format says; tests/check-format.sh checks them.
format:
	$(Q)find $(addprefix $(SRC)/,cmd kernels lib tests) \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) \
		! -path '*/golden/*' | xargs clang-format -i

check-peers: all $(PEERS) $(addprefix $(B)/tests/unit/test_,pretrained encoders textencoder paris pixart)
	$(Q)B=$(B) PEER_PYTHON='$(or $(PEER_PYTHON),python3)' $(SRC)/tests/peers/run $(T)

soak: all $(B)/tests/clockjump.so $(B)/tests/soak
	$(Q)B=$(B) $(foreach v,TIME EVERY SEED KINDS STEPS SAVE RANKS,$(if $($(v)),$(v)='$($(v))')) $(SRC)/tests/faults/soaking.sh

demo:
	$(Q)B=$(B) $(SRC)/share/deps.sh --quick --needed
	$(Q)$(MAKE) --no-print-directory $(JOBS) demo-built

demo-video:
	$(Q)B=$(B) $(SRC)/share/deps.sh --quick --needed
	$(Q)$(MAKE) --no-print-directory $(JOBS) demo-video-built

demo-built demo-video-built: all
	$(Q)$(MAKE) --no-print-directory -f $(SRC)/share/recipes/$(if $(filter demo-video%,$@),video,demo).mk BIN=$(abspath $(B)) demo

bench: all $(BENCHES)
	$(Q)B=$(B) $(if $(THREADS),THREADS=$(THREADS)) $(SRC)/tests/bench/run $(if $(BENCH),'$(BENCH)')

bench-quick: $(patsubst %,$(B)/tests/bench/bench_%,gemm nets ops step)
	$(Q)B=$(B) $(SRC)/tests/bench/run --quick

bench-baseline:
	$(Q)B=$(B) $(SRC)/tests/bench/run --baseline

# Completion for the shells: every program writes its own, from its table of options.
COMPLETION = $(foreach p,$(notdir $(PROGS)),$(B)/completion/bash/$(p) $(B)/completion/zsh/_$(p) $(B)/completion/fish/$(p).fish)
PLACE_bash = bash-completion/completions
PLACE_zsh = zsh/site-functions
PLACE_fish = fish/vendor_completions.d
completion_place = $(DESTDIR)$(DATAROOTDIR)/$(PLACE_$(notdir $(patsubst %/,%,$(dir $(1)))))/$(notdir $(1))
write_completion = @mkdir -p $(@D) && $< --completion $(notdir $(@D)) >$@

$(B)/completion/bash/%: $(B)/%
	$(write_completion)
$(B)/completion/zsh/_%: $(B)/%
	$(write_completion)
$(B)/completion/fish/%.fish: $(B)/%
	$(write_completion)
completion: $(COMPLETION)

SECONDS = 60
fuzz:
	$(Q)B=$(B)-fuzz $(SRC)/configure --enable-sanitize=fuzzer --without-media CC=clang
	$(Q)$(MAKE) --no-print-directory B=$(B)-fuzz fuzzers
	$(Q)B=$(B)-fuzz SECONDS=$(SECONDS) $(SRC)/tests/fuzz/campaign.sh $(FUZZ)

fuzzers: $(FUZZERS)

INSTALL_PROGS = $(addprefix $(DESTDIR)$(BINDIR)/,$(notdir $(PROGS))) $(foreach p,$(CODERS) $(ENGINE),$(p:$(B)/%=$(DESTDIR)$(LIBEXECDIR)/ddm/%))
INSTALL_MAN = $(foreach p,$(wildcard $(SRC)/man/*.[157]),$(DESTDIR)$(MANDIR)/man$(subst .,,$(suffix $(p)))/$(notdir $(p)))
INSTALL_SHARE = $(DESTDIR)$(DATADIR)/fetch-weights $(patsubst $(SRC)/share/%,$(DESTDIR)$(DATADIR)/%,$(wildcard $(SRC)/share/*/*))

INSTALL_COMPLETION = $(foreach p,$(COMPLETION),$(call completion_place,$(p)))

# The library for other programs: its headers but for those that only their own folder includes.
PRIVATE_H = $(wildcard $(SRC)/lib/*/*impl.h) $(addprefix $(SRC)/lib/,comm/halves.h file/blockcache.h file/command.h file/httpanswer.h \
	file/httpfile.h file/httplane.h file/s3url.h tape/opdef.h tape/record.h diffusion/dopri5.h \
	plot/plotinput.h train/buckets.h train/calibrate.h train/checkpointwriter.h train/muonupdate.h train/ranksum.h train/rankupdate.h \
	train/rankwatch.h train/run.h train/shares.h train/state.h train/statehash.h train/step.h train/stepdetail.h train/tally.h \
	train/update.h train/watchdog.h sample/output.h sample/prompts.h sample/reference.h sample/sampling.h sample/sink.h \
	sample/textsource.h)
PUBLIC_H = $(filter-out $(PRIVATE_H),$(wildcard $(SRC)/lib/*/*.h))
PUBLIC_KERNEL_H = $(addprefix $(SRC)/kernels/,compact.h device.h gemm.h op.h optimizer.h peak.h profile.h)
header_place = $(DESTDIR)$(INCLUDEDIR)/ddm/$(patsubst $(SRC)/%,%,$(patsubst $(SRC)/lib/%,%,$(1)))
INSTALL_LIB = $(addprefix $(DESTDIR)$(LIBDIR)/,libddm.a pkgconfig/ddm.pc) \
	$(foreach h,$(PUBLIC_H) $(PUBLIC_KERNEL_H),$(call header_place,$(h)))
STATIC_LIBS = $(CUDA_LIBS) $(LDLIBS) $(filter -fsanitize=%,$(CFLAGS))

install-lib: $(B)/libddm.a
	$(Q)install -D -m 644 $(B)/libddm.a $(DESTDIR)$(LIBDIR)/libddm.a
	$(Q)$(foreach h,$(PUBLIC_H) $(PUBLIC_KERNEL_H),install -D -m 644 $(h) $(call header_place,$(h)) &&) :
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(LIBDIR))|' -e 's|@VERSION@|$(VERSION)|' \
		-e 's|@INCLUDEDIR@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(INCLUDEDIR))|' -e 's|@LIBS@|$(strip $(STATIC_LIBS))|' \
		$(SRC)/share/ddm.pc.in >$(B)/ddm.pc
	$(Q)install -D -m 644 $(B)/ddm.pc $(DESTDIR)$(LIBDIR)/pkgconfig/ddm.pc

install: all completion install-lib
	$(Q)$(foreach p,$(PROGS),install -D -m 755 $(p) $(DESTDIR)$(BINDIR)/$(notdir $(p)) &&) :
	$(Q)$(foreach p,$(CODERS) $(ENGINE),install -D -m 755 $(p) $(DESTDIR)$(LIBEXECDIR)/ddm/$(notdir $(p)) &&) :
	$(Q)$(foreach p,$(wildcard $(SRC)/man/*.[157]),\
		install -D -m 644 $(p) $(DESTDIR)$(MANDIR)/man$(subst .,,$(suffix $(p)))/$(notdir $(p)) &&) :
	$(Q)$(foreach p,$(wildcard $(SRC)/share/*/*),\
		install -D -m $$(test -x $(p) && echo 755 || echo 644) $(p) $(patsubst $(SRC)/share/%,$(DESTDIR)$(DATADIR)/%,$(p)) &&) :
	$(Q)install -D -m 755 $(SRC)/share/fetch-weights $(DESTDIR)$(DATADIR)/fetch-weights
	$(Q)$(foreach p,$(COMPLETION),install -D -m 644 $(p) $(call completion_place,$(p)) &&) :

uninstall:
	rm -f $(INSTALL_PROGS) $(INSTALL_MAN) $(INSTALL_SHARE) $(INSTALL_COMPLETION) $(INSTALL_LIB)

dist:
	$(Q)git -C $(SRC) archive --format=tar --prefix=ddm-$(VERSION)/ HEAD | gzip -9n >ddm-$(VERSION).tar.gz
	@echo ddm-$(VERSION).tar.gz

clean:
	rm -rf $(addprefix $(B)/,lib kernels cmd tests completion flags libddm.a libcmd.a ddm.pc ingest-decoder film-encoder mpi-engine.so \
		nccl-engine.so ddm-*)

distclean: clean
	rm -rf $(B)

FORCE:
.PHONY: format all tests completion deps check check-built check-peers check-cuda soak cuda-tests standin cpu-part cuda-bundle bundle \
	demo demo-built demo-video demo-video-built bench bench-cuda bench-quick bench-baseline fuzz fuzzers install install-lib uninstall dist \
	clean distclean FORCE
.SECONDARY:
.DELETE_ON_ERROR:
-include $(wildcard $(OBJECTS:.o=.d))
