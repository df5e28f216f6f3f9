/* Names and sizes of the element types of safetensors. */
#include "file/safetensors.h"

static const struct {
	const char *name;
	size_t size;
} types[ST_TYPES] = {
    [ST_F64] = {"F64", 8},         [ST_I64] = {"I64", 8},         [ST_U64] = {"U64", 8},   [ST_F32] = {"F32", 4}, [ST_I32] = {"I32", 4},
    [ST_U32] = {"U32", 4},         [ST_F16] = {"F16", 2},         [ST_BF16] = {"BF16", 2}, [ST_I16] = {"I16", 2}, [ST_U16] = {"U16", 2},
    [ST_F8_E4M3] = {"F8_E4M3", 1}, [ST_F8_E5M2] = {"F8_E5M2", 1}, [ST_I8] = {"I8", 1},     [ST_U8] = {"U8", 1},   [ST_BOOL] = {"BOOL", 1},
};

int st_type_is_float(enum st_type t)
{
	return t == ST_F32 || t == ST_F16 || t == ST_BF16 || t == ST_F64 || t == ST_F8_E4M3 || t == ST_F8_E5M2;
}

size_t st_type_size(enum st_type t)
{
	return types[t].size;
}

const char *st_type_name(enum st_type t)
{
	return types[t].name;
}

int64_t st_count(const struct st_tensor *t)
{
	int64_t n = 1;

	for (int i = 0; i < t->rank; i++)
		n *= t->shape[i];
	return n;
}
