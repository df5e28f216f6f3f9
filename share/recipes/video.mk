# `make demo-video`: three experts and a router against one network of equal compute, on clips of eight frames of 32 x 32. The clips are drawn by
# FFmpeg's own sources and their motion is known: a disc that bounces, a bar that turns, and rings that a camera moves towards; with
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

# A name in braces is drawn anew for each seed. st() keeps a number, and ld() gives it back.
DISC = lavfi@disc:nullsrc=size=32x32:rate=$(RATE),format=gray,geq=lum=0*st(0\,6+20*abs(mod({u:0:2}+N*{u:.06:.2}\,2)-1))$\
	+0*st(1\,6+20*abs(mod({u:0:2}+N*{u:.06:.2}\,2)-1))+255*clip({u:4:6}-hypot(X-ld(0)\,Y-ld(1))+.5\,0\,1)
BAR = lavfi@bar:nullsrc=size=32x32:rate=$(RATE),format=gray,geq=lum=255-0*st(0\,{u:0:6.28}+N*{pick:1|-1}*{u:.15:.4})$\
	-255*clip({u:10:15}-abs((X-15.5)*cos(ld(0))+(Y-15.5)*sin(ld(0)))\,0\,1)$\
	*clip({u:2.5:4}-abs((Y-15.5)*cos(ld(0))-(X-15.5)*sin(ld(0)))\,0\,1)
ZOOM = lavfi@zoom:nullsrc=size=32x32:rate=$(RATE),format=gray,geq=lum=127+120*sin({u:0:6.28}$\
	+{u:.6:.9}*hypot(X-{u:10:21}\,Y-{u:10:21})/pow({u:1.06:1.18}\,N))
ifndef DATA
DATA = '$(DISC)' '$(BAR)' '$(ZOOM)'
INGEST_FLAGS = --grey --seeds $(if $(DEMO_TINY),40,400)
endif

# A U-Net that sees all frames as channels learns clips of this length with the fewest operations. Its 32 channels carry the noise of 8 grey frames, but
# not that of 8 frames in colour, for which it predicts the clean clip.
NET = --model unet-nano
PREDICT = $(if $(filter --grey,$(INGEST_FLAGS)),velocity,x0)
ROUTER_NET = --model dit-nano/8 --hidden 64 --depth 2
POLICIES = top-1 full
ifdef DEMO_TINY
IMAGES = 200
BATCH = 24
TRAIN_FLAGS = --predict $(PREDICT) --lr 1e-3 --warmup 2 --ema-half-life 4 -q
ROUTER_BATCH = 24
ROUTER_FLAGS = --steps 3 --lr 1e-3 --warmup 1 -q
N = 24
STEPS = 4
else
# Clips that each arm trains on.
IMAGES = 24000
BATCH = 12
EXPERT_BATCH = 4
TRAIN_FLAGS = --predict $(PREDICT)
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
