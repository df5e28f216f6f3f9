/* Made by torch_randn.py with PyTorch's CPU generator. */

static const struct {
	uint64_t seed;
	int64_t n[3]; /* drawn one after the other from one generator */
	uint32_t last; /* bits of the last */
	const char *sha256; /* of all, little-endian */
} golden_randn[] = {
    {0u, {1, 0, 0}, 0x3fc53f5c,
     "3b8ea0dd3165a7600cce7539f943a28fb9addc8e69c31ae805e26b91a2862b93"},
    {0u, {15, 0, 0}, 0xbf891cab,
     "feb39d97c8afee245f21d052413d07b2de3a4973c2085d7ed18ba5070e9c7a28"},
    {0u, {16, 0, 0}, 0xbe7d367c,
     "7648137a31024642604465428f1598d06f595259ac993612918498d7cde9b70c"},
    {1u, {17, 0, 0}, 0xbf4c668d,
     "9e976497df1a5075f4c5b44202da15cf3e2b518883881af8a93fe23e525271d4"},
    {7u, {33, 0, 0}, 0xbfd189ea,
     "c63bf033fa8f8a314a07bdb60c1ae026736b35f18b5051bb0069d603e480f072"},
    {123u, {4096, 0, 0}, 0xbf49eaac,
     "7c6a0447700317611bbd28e13e1ea9008fcd3cc66ca334316bae7a33cb591020"},
    {4294967301u, {1, 20, 3}, 0xbf5528cc,
     "e1ce91afa1d0bdcf325e0196a7019a01c2ce53e4a6a730e98afc116dd10bfa68"},
    {11u, {65536, 31, 1}, 0x40470293,
     "8cc368c1f5ac8a21bd8fe4747c5b0a1160afcbdb940fa34617c619d3a6563830"},
};
