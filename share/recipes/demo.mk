# `make demo`: four experts and a router against one network of equal compute. The pictures are 10,000 photographs of clothing, the test part of
# Fashion-MNIST (Xiao et al. 2017) from Debian's package dataset-fashion-mnist, at 16 x 16; without the package, or with PICTURES=drawn, pictures
# drawn by FFmpeg's own sources; with DATA=folder, yours. Ends with a table, demo/report.tsv, a sheet of pictures, demo/samples.png, and all of it
# on one page, demo/report.html. Another `make demo` does only what is missing. DEMO=directory writes elsewhere, DEMO_TINY=1 is a minute's exercise
# of every step.
HERE := $(dir $(lastword $(MAKEFILE_LIST)))
DEMO ?= demo
RUN = $(DEMO)

CLOTHING = /usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz
ifndef PICTURES
PICTURES := $(if $(DATA),,$(if $(wildcard $(CLOTHING)),clothing,drawn))
endif

ifeq ($(PICTURES),clothing)
DATA = $(CLOTHING)
endif
ifeq ($(PICTURES),drawn)
# Four kinds of pictures, of which gradients and blobs overlap. A name in braces is drawn anew for each of the seeds; some frames of
# automata repeat and are dropped. The frames of one seed are held out together.
GRADIENTS = lavfi@gradients:gradients=size=32x32:rate=1:nb_colors=3:c0={color}:c1={color}:c2={color}$\
	:x0={i:0:31}:y0={i:0:31}:x1={i:0:31}:y1={i:0:31}:seed={seed}:speed=.1
BLOBS = lavfi@blobs:life=size=16x16:rate=1:ratio={u:.3:.6}:seed={seed}:mold=20:life_color={color}:death_color={color}$\
	:mold_color={color},scale=8:8:flags=area+bitexact+accurate_rnd,scale=32:32:flags=bicubic+bitexact+accurate_rnd,boxblur=2:2
FRACTAL = lavfi@fractal:mandelbrot=size=32x32:rate=1:{pick:start_x=-.745:start_y=.113|start_x=-.16:start_y=1.04|$\
	start_x=.28:start_y=.53|start_x=-1.25:start_y=.02|start_x=.37:start_y=.1}:start_scale={u:.1:1.5}:end_scale={u:.01:.1}$\
	:end_pts=12:maxiter=200:inner=convergence,format=rgb24,colorchannelmixer=rr={u:.3:1}:rb={u:0:.6}$\
	:gg={u:.3:1}:gr={u:0:.6}:bb={u:.3:1}:bg={u:0:.6}
AUTOMATA = lavfi@automata:cellauto=size=16x16:rate=1:rule={pick:18|22|30|45|54|60|73|90|105|110|122|126|150}$\
	:random_seed={seed}:random_fill_ratio={u:.2:.8}:scroll=0:start_full=1:stitch=1,format=rgb24,$\
	lutrgb=r=val*{u:.2:.6}+{i:0:100}:g=val*{u:.2:.6}+{i:0:100}:b=val*{u:.2:.6}+{i:0:100},scale=32:32:flags=neighbor+bitexact
DATA = '$(GRADIENTS)' '$(BLOBS)' '$(FRACTAL)' '$(AUTOMATA)'
INGEST_FLAGS = --seeds $(if $(DEMO_TINY),40,240) --frames $(if $(DEMO_TINY),3,7)
endif

K = 4
ifeq ($(PICTURES),clothing)
# Small convolutional experts learn pictures of this size with the fewest operations.
SIZE = 16
COLOUR = --grey
NET = --model unet-nano
ROUTER_NET = --model dit-nano/4 --hidden 64 --depth 2
GRID_FLAGS = --spread --scale 3
else
# ddm-train chooses the network, the optimizer and the rate.
SIZE = 32
NET =
ROUTER_NET = --model dit-nano/8 --hidden 64 --depth 2
endif
ifdef DEMO_TINY
IMAGES = 400
BATCH = 32
TRAIN_FLAGS = $(COLOUR) --lr 1e-3 --warmup 4 --ema-half-life 4 -q
ROUTER_BATCH = 32
ROUTER_FLAGS = $(COLOUR) --steps 4 --lr 1e-3 --warmup 4 -q
N = 24
STEPS = 4
else ifeq ($(PICTURES),clothing)
# Pictures that each arm trains on. Small batches: at this length more steps are worth more than larger ones.
IMAGES = 24000
BATCH = 16
EXPERT_BATCH = 8
TRAIN_FLAGS = $(COLOUR)
ROUTER_BATCH = 128
ROUTER_FLAGS = $(COLOUR) --steps 300 --lr 1e-3 --optimizer adamw --schedule constant
N = 500
STEPS = 20
else
# Pictures that each arm trains on, whatever the size of the data: 2,000 steps of the monolith.
IMAGES = 128000
BATCH = 64
TRAIN_FLAGS =
ROUTER_BATCH = 128
ROUTER_FLAGS = --steps 500
N = 1000
STEPS = 25
endif

demo: report
	@echo
	@$(ddm)report -t strategy --columns '$(COLUMNS)' $(report_rows)
	@echo
	@echo 'kd, fd: kernel and Frechet distance to the training part and to the held-out part (smaller is closer); kd_floor, fd_floor:'
	@echo 'of the training part itself to the held-out part; memorised: share of samples that copy a training picture.'
	@echo 'One seed and a short training: this table names no winner. SEED=2 DEMO=demo-2 trains another; see ddm(7).'
	@echo 'Pictures: $(RUN)/samples.png, clusters: $(RUN)/clusters.png, table: $(RUN)/report.tsv'
	@echo 'All of it on one page: $(RUN)/report.html'

.PHONY: demo
include $(HERE)ddm.mk
