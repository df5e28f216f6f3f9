# `make demo-video`: three experts and a router against one network of equal compute, on clips of eight frames of 32 x 32. The clips are drawn by
# FFmpeg's own sources and their motion is known: a disc that bounces, a bar that turns, and a camera that moves into a fractal; with
# DATA='folder', clips of your videos. Ends with a table of distances in content and in motion, demo-video/report.tsv, films of each arm,
# demo-video/films, and all of it on one page that plays them, demo-video/report.html. Another `make demo-video` does only what is missing.
# DEMO=directory writes elsewhere, DEMO_TINY=1 is a short exercise of every step.
HERE := $(dir $(lastword $(MAKEFILE_LIST)))
DEMO ?= demo-video
RUN = $(DEMO)
CLIPS = 8
RATE = 8
SIZE = 32
K = 3
HOLDOUT = .15

# A name in braces is drawn anew for each seed. The expressions of geq are those of a picture that is 0 or 255: st() keeps a number, and ld() gives
# it back. Each kind has colours of its own.
C = format=rgb24,lutrgb
DISC = lavfi@disc:nullsrc=size=32x32:rate=$(RATE),format=gray,geq=lum=0*st(0\,6+20*abs(mod({u:0:2}+N*{u:.06:.2}\,2)-1))$\
	+0*st(1\,6+20*abs(mod({u:0:2}+N*{u:.06:.2}\,2)-1))+255*clip({u:4:6}-hypot(X-ld(0)\,Y-ld(1))+.5\,0\,1),$\
	$C=r=val*{u:.3:.7}+{i:0:70}:g=val*{u:.3:.7}+{i:0:70}:b=val*{u:.3:.7}+{i:0:70}
BAR = lavfi@bar:nullsrc=size=32x32:rate=$(RATE),format=gray,geq=lum=0*st(0\,{u:0:6.28}+N*{pick:1|-1}*{u:.15:.4})$\
	+255*clip({u:10:15}-abs((X-15.5)*cos(ld(0))+(Y-15.5)*sin(ld(0)))\,0\,1)$\
	*clip({u:2.5:4}-abs((Y-15.5)*cos(ld(0))-(X-15.5)*sin(ld(0)))\,0\,1),$\
	$C=r=negval*{u:.3:.6}+{i:40:100}:g=negval*{u:.3:.6}+{i:40:100}:b=negval*{u:.3:.6}+{i:40:100}
ZOOM = lavfi@zoom:mandelbrot=size=32x32:rate=$(RATE):{pick:start_x=-.745:start_y=.113|start_x=-.16:start_y=1.04|$\
	start_x=.28:start_y=.53|start_x=-1.25:start_y=.02|start_x=.37:start_y=.1}:start_scale={u:.5:2}:end_scale={u:.05:.3}:end_pts=8$\
	:maxiter=100:inner=convergence,format=rgb24,colorchannelmixer=rr={u:.3:1}:rb={u:0:.6}:gg={u:.3:1}:gr={u:0:.6}:bb={u:.3:1}:bg={u:0:.6}
ifndef DATA
DATA = '$(DISC)' '$(BAR)' '$(ZOOM)'
INGEST_FLAGS = --seeds $(if $(DEMO_TINY),40,400)
endif

# A U-Net that sees all frames as channels learns clips of this length with the fewest operations. It predicts the clean clip, because its 32 channels
# cannot carry the noise of 24.
NET = --model unet-nano
ROUTER_NET = --model dit-nano/8 --hidden 64 --depth 2
POLICIES = top-1 full
ifdef DEMO_TINY
IMAGES = 200
BATCH = 24
TRAIN_FLAGS = --predict x0 --lr 1e-3 --warmup 2 --ema-half-life 4 -q
ROUTER_BATCH = 24
ROUTER_FLAGS = --steps 3 --lr 1e-3 --warmup 1 -q
N = 24
STEPS = 4
else
# Clips that each arm trains on.
IMAGES = 18000
BATCH = 12
EXPERT_BATCH = 4
TRAIN_FLAGS = --predict x0
ROUTER_BATCH = 64
ROUTER_FLAGS = --steps 200
N = 192
STEPS = 25
endif

demo: report
	@echo
	@$(ddm)report -t strategy --columns '$(COLUMNS)' $(report_rows)
	@echo
	@echo 'content, motion: kernel distances of single frames and of movement to the held-out clips (smaller is closer); content_floor,'
	@echo 'motion_floor: those of the training clips. One seed and a short training: this table names no winner.'
	@echo 'Films: $(RUN)/films, clusters: $(RUN)/clusters.png, table: $(RUN)/report.tsv'
	@echo 'All of it on one page that plays: $(RUN)/report.html'

.PHONY: demo
include $(HERE)ddm.mk
