/* The compiled twin of pure.py: the same functions, the same bytes. See interface.py.

   Written against Python's stable interface, so that one build serves every version from 3.11 on.
   Offsets into a batch were checked by whoever made it; they are checked again here all the same,
   because a mistake would read or write memory that is not ours. */

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef unsigned char byte;

/* -- CRC-32 as zlib has it --------------------------------------------------------------------- */

static uint32_t crc_table[8][256];

static void make_crc_table(void) {
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t c = n;
        for (int k = 0; k < 8; k++) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
        crc_table[0][n] = c;
    }
    for (int t = 1; t < 8; t++)
        for (int n = 0; n < 256; n++) {
            uint32_t c = crc_table[t - 1][n];
            crc_table[t][n] = crc_table[0][c & 0xFF] ^ (c >> 8);
        }
}

/* `crc` is inverted before and after by the caller. */
static uint32_t crc_by_table(uint32_t crc, const byte *p, size_t size) {
    while (size >= 8) {
        uint32_t a = crc ^ (p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24);
        crc = crc_table[7][a & 0xFF] ^ crc_table[6][a >> 8 & 0xFF] ^ crc_table[5][a >> 16 & 0xFF]
            ^ crc_table[4][a >> 24] ^ crc_table[3][p[4]] ^ crc_table[2][p[5]]
            ^ crc_table[1][p[6]] ^ crc_table[0][p[7]];
        p += 8;
        size -= 8;
    }
    while (size--) crc = crc_table[0][(crc ^ *p++) & 0xFF] ^ (crc >> 8);
    return crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_FOLDING 1
#include <immintrin.h>

static int can_fold = 0;

/* Folding by carry-less multiplication; `size` is a multiple of 16, at least 64. Source: Gopal et
   al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009. */
__attribute__((target("pclmul,sse4.1")))
static uint32_t crc_by_folding(uint32_t crc, const byte *p, size_t size) {
    const __m128i by_512 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
    const __m128i by_128 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
    const __m128i by_64 = _mm_set_epi64x(0, 0x0163cd6124);
    const __m128i polynomial = _mm_set_epi64x(0x01f7011641, 0x01db710641);
    const __m128i low_32 = _mm_setr_epi32(-1, 0, -1, 0);
    __m128i x[4], part;
    for (int i = 0; i < 4; i++) x[i] = _mm_loadu_si128((const __m128i *)p + i);
    x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int)crc));
    p += 64;
    size -= 64;
    while (size >= 64) {
        for (int i = 0; i < 4; i++) {
            part = _mm_clmulepi64_si128(x[i], by_512, 0x00);
            x[i] = _mm_clmulepi64_si128(x[i], by_512, 0x11);
            x[i] = _mm_xor_si128(_mm_xor_si128(x[i], part),
                                 _mm_loadu_si128((const __m128i *)p + i));
        }
        p += 64;
        size -= 64;
    }
    for (int i = 1; i < 4; i++) {
        part = _mm_clmulepi64_si128(x[0], by_128, 0x00);
        x[0] = _mm_clmulepi64_si128(x[0], by_128, 0x11);
        x[0] = _mm_xor_si128(_mm_xor_si128(x[0], x[i]), part);
    }
    while (size >= 16) {
        part = _mm_clmulepi64_si128(x[0], by_128, 0x00);
        x[0] = _mm_clmulepi64_si128(x[0], by_128, 0x11);
        x[0] = _mm_xor_si128(_mm_xor_si128(x[0], _mm_loadu_si128((const __m128i *)p)), part);
        p += 16;
        size -= 16;
    }
    part = _mm_clmulepi64_si128(x[0], by_128, 0x10);
    x[0] = _mm_xor_si128(_mm_srli_si128(x[0], 8), part);
    part = _mm_srli_si128(x[0], 4);
    x[0] = _mm_clmulepi64_si128(_mm_and_si128(x[0], low_32), by_64, 0x00);
    x[0] = _mm_xor_si128(x[0], part);
    part = _mm_clmulepi64_si128(_mm_and_si128(x[0], low_32), polynomial, 0x10);
    part = _mm_clmulepi64_si128(_mm_and_si128(part, low_32), polynomial, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(x[0], part), 1);
}
#endif

static uint32_t crc_of(const byte *p, size_t size) {
    uint32_t crc = 0xFFFFFFFFu;
#ifdef HAS_FOLDING
    if (can_fold && size >= 64) {
        size_t folded = size & ~(size_t)15;
        crc = crc_by_folding(crc, p, folded);
        p += folded;
        size -= folded;
    }
#endif
    return ~crc_by_table(crc, p, size) & 0x7FFFFFFFu;
}

/* -- numbers and hashes ------------------------------------------------------------------------ */

static uint32_t get_u16(const byte *p) { return (uint32_t)p[0] << 8 | p[1]; }
static uint32_t get_u32(const byte *p) { return get_u16(p) << 16 | get_u16(p + 2); }
static uint64_t get_u64(const byte *p) { return (uint64_t)get_u32(p) << 32 | get_u32(p + 4); }

static byte *put_u16(byte *p, uint32_t value) {
    p[0] = (byte)(value >> 8);
    p[1] = (byte)value;
    return p + 2;
}
static byte *put_u32(byte *p, uint32_t value) { return put_u16(put_u16(p, value >> 16), value); }
static byte *put_u64(byte *p, uint64_t value) {
    return put_u32(put_u32(p, (uint32_t)(value >> 32)), (uint32_t)value);
}
static byte *put_bytes(byte *p, const void *source, size_t size) {
    memcpy(p, source, size);
    return p + size;
}
static byte *put_hex(byte *p, uint64_t value, int digits) {
    for (int i = digits - 1; i >= 0; i--) {
        p[i] = (byte)"0123456789ABCDEF"[value & 15];
        value >>= 4;
    }
    return p + digits;
}

static uint32_t extend_hash(uint32_t hash, const byte *p, size_t size) {
    while (size--) hash = hash * 31 + *p++;
    return hash;
}
static uint32_t absolute(uint32_t hash) {
    if (hash < 0x80000000u) return hash;
    return hash == 0x80000000u ? 0 : 0u - hash;
}

/* -- the columns of a batch -------------------------------------------------------------------- */

typedef struct {
    const char *data; Py_ssize_t size;
    Py_ssize_t count, bodies_at, tags_at, keys_at, flags_at, born_at, ids_at, properties_at;
    long long position, first_offset;
    int magic, queue, flag, tag_code;
    long long born_ms;
    const char *shared; Py_ssize_t shared_size;
    const char *topic; Py_ssize_t topic_size;
    const char *id_prefix; Py_ssize_t id_prefix_size;
    long long id_first;
    const char *tag; Py_ssize_t tag_size;
    const char *keys; Py_ssize_t keys_size;
    const char *properties; Py_ssize_t properties_size;
    unsigned int topic_hash;
    const char *key_hashes; Py_ssize_t key_hashes_size;
} Batch;

/* Whether `width` bytes for each message, and what those lengths announce, lie inside the data. */
static int has_column(const Batch *b, Py_ssize_t at, int width, int is_lengths) {
    if (at < 0) return 1;
    if (b->count > (PY_SSIZE_T_MAX - at) / width || at + b->count * width > b->size) return 0;
    if (!is_lengths) return 1;
    Py_ssize_t left = b->size - at - b->count * width;
    const byte *p = (const byte *)b->data + at;
    for (Py_ssize_t i = 0; i < b->count; i++, p += width) {
        left -= (Py_ssize_t)(width == 2 ? get_u16(p) : get_u32(p));
        if (left < 0) return 0;
    }
    return 1;
}

static int has_columns(const Batch *b) {
    return b->count >= 0 && b->bodies_at >= 0
        && has_column(b, b->bodies_at, 4, 1) && has_column(b, b->tags_at, 2, 1)
        && has_column(b, b->keys_at, 2, 1) && has_column(b, b->flags_at, 8, 0)
        && has_column(b, b->born_at, 8, 0) && has_column(b, b->ids_at, 2, 1)
        && has_column(b, b->properties_at, 2, 1);
}

static int is_good_tag(const byte *p, size_t size) {
    while (size--) {
        if (*p < 0x21 || *p > 0x7E || *p == '|') return 0;
        p++;
    }
    return 1;
}

/* Keys of printable ASCII with one blank between each two. */
static int are_good_keys(const byte *p, size_t size, int count_max) {
    int count = size > 0;
    for (size_t i = 0; i < size; i++) {
        if (p[i] == ' ') {
            if (i == 0 || i + 1 == size || p[i - 1] == ' ') return 0;
            count++;
        } else if (p[i] < 0x21 || p[i] > 0x7E) return 0;
    }
    return count <= count_max;
}

static int is_good_id(const byte *p, size_t size, size_t size_max) {
    if (!size || size > size_max) return 0;
    while (size--) {
        byte lower = *p | 0x20;
        if ((*p < '0' || *p > '9') && (lower < 'a' || lower > 'z')) return 0;
        p++;
    }
    return 1;
}

static PyObject *are_plain(PyObject *self, PyObject *args) {
    Batch b = {0};
    long body_max;
    int tag_max, keys_max, key_count_max, id_max, properties_max;
    (void)self;
    if (!PyArg_ParseTuple(args, "y#nnnnnnnnliiiii", &b.data, &b.size, &b.count, &b.bodies_at,
                          &b.tags_at, &b.keys_at, &b.flags_at, &b.born_at, &b.ids_at,
                          &b.properties_at, &body_max, &tag_max, &keys_max, &key_count_max,
                          &id_max, &properties_max))
        return NULL;
    if (!has_columns(&b)) {
        PyErr_SetString(PyExc_ValueError, "a column goes beyond its data");
        return NULL;
    }
    const byte *data = (const byte *)b.data;
    for (Py_ssize_t i = 0; i < b.count; i++) {
        uint32_t size = get_u32(data + b.bodies_at + 4 * i);
        if (size == 0 || size > (uint32_t)body_max) Py_RETURN_FALSE;
    }
    if (b.tags_at >= 0) {
        const byte *text = data + b.tags_at + 2 * b.count;
        for (Py_ssize_t i = 0; i < b.count; i++) {
            uint32_t size = get_u16(data + b.tags_at + 2 * i);
            if (size > (uint32_t)tag_max || !is_good_tag(text, size)) Py_RETURN_FALSE;
            text += size;
        }
    }
    if (b.keys_at >= 0) {
        const byte *text = data + b.keys_at + 2 * b.count;
        for (Py_ssize_t i = 0; i < b.count; i++) {
            uint32_t size = get_u16(data + b.keys_at + 2 * i);
            if (size > (uint32_t)keys_max || !are_good_keys(text, size, key_count_max))
                Py_RETURN_FALSE;
            text += size;
        }
    }
    if (b.flags_at >= 0)
        for (Py_ssize_t i = 0; i < b.count; i++) {
            int64_t flag = (int64_t)get_u64(data + b.flags_at + 8 * i);
            if (flag < INT32_MIN || flag > INT32_MAX) Py_RETURN_FALSE;
        }
    if (b.born_at >= 0)
        for (Py_ssize_t i = 0; i < b.count; i++)
            if ((int64_t)get_u64(data + b.born_at + 8 * i) < 0) Py_RETURN_FALSE;
    if (b.ids_at >= 0) {
        const byte *text = data + b.ids_at + 2 * b.count;
        for (Py_ssize_t i = 0; i < b.count; i++) {
            uint32_t size = get_u16(data + b.ids_at + 2 * i);
            if (!is_good_id(text, size, (size_t)id_max)) Py_RETURN_FALSE;
            text += size;
        }
    }
    if (b.properties_at >= 0)
        for (Py_ssize_t i = 0; i < b.count; i++)
            if (get_u16(data + b.properties_at + 2 * i) > (uint32_t)properties_max) Py_RETURN_FALSE;
    Py_RETURN_TRUE;
}

/* -- encoding ---------------------------------------------------------------------------------- */

static const char ID_NAME[] = "UNIQ_KEY\x01";
static const char TAG_NAME[] = "TAGS\x01";
static const char KEYS_NAME[] = "KEYS\x01";
static const char CRC_NAME[] = "__CRC32#\x01";
#define LENGTH(name) ((Py_ssize_t)sizeof(name) - 1)
#define OWN_BYTES 36
#define CRC_BYTES 20
#define ENTRY_BYTES 20
#define PROPERTIES_MAX 32767
#define BORN_AT 4 /* in what the messages of a sender share */

static Py_ssize_t text_part(const byte *lengths, Py_ssize_t name_size) {
    Py_ssize_t size = (Py_ssize_t)get_u16(lengths);
    return size ? name_size + size + 1 : 0;
}

static Py_ssize_t id_size(const Batch *b, Py_ssize_t i) {
    if (b->ids_at >= 0) return (Py_ssize_t)get_u16((const byte *)b->data + b->ids_at + 2 * i);
    return b->id_prefix_size + (b->id_first < 0 ? 16 : 8);
}

/* Bytes of the properties of message i, without the CRC. */
static Py_ssize_t property_size(const Batch *b, Py_ssize_t i) {
    const byte *data = (const byte *)b->data;
    Py_ssize_t size = LENGTH(ID_NAME) + id_size(b, i) + 1 + b->properties_size;
    if (b->properties_at >= 0) size += (Py_ssize_t)get_u16(data + b->properties_at + 2 * i);
    size += b->tags_at < 0 ? b->tag_size : text_part(data + b->tags_at + 2 * i, LENGTH(TAG_NAME));
    size += b->keys_at < 0 ? b->keys_size : text_part(data + b->keys_at + 2 * i, LENGTH(KEYS_NAME));
    return size;
}

static Py_ssize_t count_keys(const Batch *b) {
    Py_ssize_t count = 0;
    if (b->keys_at < 0) return b->count * (b->key_hashes_size / 4);
    const byte *lengths = (const byte *)b->data + b->keys_at;
    const byte *text = lengths + 2 * b->count;
    for (Py_ssize_t i = 0; i < b->count; i++) {
        uint32_t size = get_u16(lengths + 2 * i);
        count += size > 0;
        for (uint32_t k = 0; k < size; k++) count += text[k] == ' ';
        text += size;
    }
    return count;
}

static byte *put_text_part(byte *p, const char *name, size_t name_size, const byte *text,
                           size_t size) {
    if (!size) return p;
    p = put_bytes(put_bytes(p, name, name_size), text, size);
    *p++ = 2;
    return p;
}

/* Ten decimal digits, the least significant first. */
static byte *put_crc(byte *p, uint32_t crc) {
    p = put_bytes(p, CRC_NAME, LENGTH(CRC_NAME));
    for (int i = 0; i < 10; i++) {
        *p++ = (byte)('0' + crc % 10);
        crc /= 10;
    }
    *p++ = 2;
    return p;
}

typedef struct { byte *record, *entry; uint32_t *hash; int64_t *place; } Output;

/* Writes message after message; 0 where an exception is set. */
static int encode_all(const Batch *b, Output out, PyObject *positions, PyObject *codes) {
    const byte *data = (const byte *)b->data;
    const byte *body = data + b->bodies_at + 4 * b->count;
    const byte *tag = data + b->tags_at + 2 * b->count, *keys = data + b->keys_at + 2 * b->count;
    const byte *own_id = data + b->ids_at + 2 * b->count;
    const byte *own = data + b->properties_at + 2 * b->count; /* properties of the message */
    int is_indexed = b->ids_at >= 0 || b->id_first >= 0;
    Py_ssize_t shared_keys = b->key_hashes_size / 4;
    int64_t position = b->position;
    for (Py_ssize_t i = 0; i < b->count; i++) {
        byte *start = out.record, *p = start;
        uint32_t body_size = get_u32(data + b->bodies_at + 4 * i);
        uint32_t tag_size = b->tags_at < 0 ? 0 : get_u16(data + b->tags_at + 2 * i);
        uint32_t keys_size = b->keys_at < 0 ? 0 : get_u16(data + b->keys_at + 2 * i);
        Py_ssize_t properties = property_size(b, i);
        uint32_t size = (uint32_t)(OWN_BYTES + b->shared_size + 4 + body_size + b->topic_size + 2
                                   + properties + CRC_BYTES);
        uint32_t flag = b->flags_at < 0 ? (uint32_t)b->flag
                                        : (uint32_t)get_u64(data + b->flags_at + 8 * i);
        int64_t code = b->tags_at < 0 ? b->tag_code : (int32_t)extend_hash(0, tag, tag_size);
        p = put_u32(put_u32(p, size), (uint32_t)b->magic);
        p = put_u32(p, crc_of(body, body_size));
        p = put_u32(put_u32(p, (uint32_t)b->queue), flag);
        p = put_u64(put_u64(p, (uint64_t)(b->first_offset + i)), (uint64_t)position);
        byte *shared = p;
        p = put_bytes(p, b->shared, (size_t)b->shared_size);
        if (b->born_at >= 0) {
            uint64_t born = get_u64(data + b->born_at + 8 * i);
            put_u64(shared + BORN_AT, born ? born : (uint64_t)b->born_ms);
        }
        p = put_bytes(put_u32(p, body_size), body, body_size);
        p = put_bytes(p, b->topic, (size_t)b->topic_size);
        p = put_u16(p, (uint32_t)(properties + CRC_BYTES));
        p = put_bytes(p, ID_NAME, LENGTH(ID_NAME));
        byte *id = p;
        size_t id_bytes = (size_t)id_size(b, i);
        if (b->ids_at >= 0) {
            p = put_bytes(p, own_id, id_bytes);
        } else {
            p = put_bytes(p, b->id_prefix, (size_t)b->id_prefix_size);
            p = b->id_first < 0 ? put_hex(p, (uint64_t)position, 16)
                                : put_hex(p, (uint64_t)(b->id_first + i), 8);
        }
        *p++ = 2;
        p = b->tags_at < 0 ? put_bytes(p, b->tag, (size_t)b->tag_size)
                           : put_text_part(p, TAG_NAME, LENGTH(TAG_NAME), tag, tag_size);
        p = b->keys_at < 0 ? put_bytes(p, b->keys, (size_t)b->keys_size)
                           : put_text_part(p, KEYS_NAME, LENGTH(KEYS_NAME), keys, keys_size);
        p = put_bytes(p, b->properties, (size_t)b->properties_size);
        size_t own_size = b->properties_at < 0 ? 0 : get_u16(data + b->properties_at + 2 * i);
        if (own_size) p = put_bytes(p, own, own_size);
        p = put_crc(p, crc_of(start, (size_t)(p - start)));
        out.record = p;

        out.entry = put_u64(put_u32(put_u64(out.entry, (uint64_t)position), size), (uint64_t)code);
        if (b->keys_at < 0) {
            memcpy(out.hash, b->key_hashes, (size_t)b->key_hashes_size);
            out.hash += shared_keys;
            for (Py_ssize_t k = 0; k < shared_keys; k++) *out.place++ = position;
        } else if (keys_size) {
            uint32_t from = 0;
            for (uint32_t k = 0; k <= keys_size; k++)
                if (k == keys_size || keys[k] == ' ') {
                    *out.hash++ = absolute(extend_hash(b->topic_hash, keys + from, k - from));
                    *out.place++ = position;
                    from = k + 1;
                }
        }
        if (is_indexed) {
            *out.hash++ = absolute(extend_hash(b->topic_hash, id, id_bytes));
            *out.place++ = position;
        }
        PyObject *number = PyLong_FromLongLong(position);
        if (!number || PyList_SetItem(positions, i, number)) return 0;
        if (codes) {
            number = PyLong_FromLongLong(code);
            if (!number || PyList_SetItem(codes, i, number)) return 0;
        }
        body += body_size;
        tag += tag_size;
        keys += keys_size;
        own_id += id_bytes;
        own += own_size;
        position += size;
    }
    return 1;
}

static PyObject *encode_records(PyObject *self, PyObject *args) {
    Batch b;
    (void)self;
    if (!PyTuple_Check(args)) {
        PyErr_SetString(PyExc_TypeError, "a RecordColumns is needed");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "y#nnnnnnnnLLiiiiLy#y#y#Ly#y#y#Iy#", &b.data, &b.size, &b.count,
                          &b.bodies_at, &b.tags_at, &b.keys_at, &b.flags_at, &b.born_at,
                          &b.ids_at, &b.properties_at, &b.position, &b.first_offset, &b.magic, &b.queue, &b.flag, &b.tag_code,
                          &b.born_ms, &b.shared, &b.shared_size, &b.topic, &b.topic_size,
                          &b.id_prefix, &b.id_prefix_size, &b.id_first, &b.tag, &b.tag_size,
                          &b.keys, &b.keys_size, &b.properties, &b.properties_size,
                          &b.topic_hash, &b.key_hashes, &b.key_hashes_size))
        return NULL;
    if (!has_columns(&b) || b.shared_size < BORN_AT + 8 || b.key_hashes_size % 4) {
        PyErr_SetString(PyExc_ValueError, "a column goes beyond its data");
        return NULL;
    }
    Py_ssize_t total = 0;
    for (Py_ssize_t i = 0; i < b.count; i++) {
        Py_ssize_t properties = property_size(&b, i);
        if (properties + CRC_BYTES > PROPERTIES_MAX) {
            PyErr_SetString(PyExc_ValueError, "the properties leave no room for the CRC");
            return NULL;
        }
        total += OWN_BYTES + b.shared_size + 4 + (Py_ssize_t)get_u32((const byte *)b.data + b.bodies_at + 4 * i)
            + b.topic_size + 2 + properties + CRC_BYTES;
    }
    if (total > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a batch of more than 2 GiB");
        return NULL;
    }
    Py_ssize_t hashed = count_keys(&b) + (b.ids_at < 0 && b.id_first < 0 ? 0 : b.count);
    PyObject *records = PyBytes_FromStringAndSize(NULL, total);
    PyObject *entries = PyBytes_FromStringAndSize(NULL, b.count * ENTRY_BYTES);
    PyObject *hashes = PyBytes_FromStringAndSize(NULL, hashed * 4);
    PyObject *places = PyBytes_FromStringAndSize(NULL, hashed * 8);
    PyObject *positions = PyList_New(b.count);
    PyObject *codes = b.tags_at < 0 ? Py_NewRef(Py_None) : PyList_New(b.count);
    PyObject *result = NULL;
    if (records && entries && hashes && places && positions && codes) {
        Output out = {
            (byte *)PyBytes_AsString(records), (byte *)PyBytes_AsString(entries),
            (uint32_t *)PyBytes_AsString(hashes), (int64_t *)PyBytes_AsString(places),
        };
        if (encode_all(&b, out, positions, codes == Py_None ? NULL : codes))
            result = PyTuple_Pack(6, records, entries, positions, codes, hashes, places);
    }
    Py_XDECREF(records);
    Py_XDECREF(entries);
    Py_XDECREF(hashes);
    Py_XDECREF(places);
    Py_XDECREF(positions);
    Py_XDECREF(codes);
    return result;
}

/* -- messages of the classic protocol ---------------------------------------------------------- */

#define BODY_AT 20 /* in a message of a batch */
#define NAMES_MAX 32
static const char WAIT_NAME[] = "WAIT";
static const char NO_WAIT[] = "false";

typedef struct { const byte *bytes; size_t size; } Slice;
typedef struct { Slice body, id, tag, keys; size_t own_size; uint32_t flag; } Sent;
typedef struct {
    Py_ssize_t body_max, tag_max, keys_max, id_max, properties_max;
    int key_count_max;
    PyObject *reserved;
} SentLimits;

static int is_text(Slice slice, const char *text, Py_ssize_t size) {
    return slice.size == (size_t)size && !memcmp(slice.bytes, text, (size_t)size);
}
static int is_same(Slice a, Slice b) {
    return a.size == b.size && !memcmp(a.bytes, b.bytes, a.size);
}
/* Text with something to see and no separator; UTF-8 is checked for the block as a whole. */
static int is_storable(Slice text) {
    int is_seen = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.bytes[i] < 2) return 0;
        is_seen |= text.bytes[i] > 0x20 && text.bytes[i] < 0x7F;
    }
    return is_seen;
}

/* Sorts one property in; 1 if it is plain, 0 if not, -1 with an exception. */
static int take_property(Sent *sent, Slice name, Slice value, Slice *names, int *count,
                         byte **own, const SentLimits *limits) {
    if (*count == NAMES_MAX) return 0;
    for (int i = 0; i < *count; i++)
        if (is_same(names[i], name)) return 0;
    names[(*count)++] = name;
    Slice *field = is_text(name, ID_NAME, LENGTH(ID_NAME) - 1)       ? &sent->id
                   : is_text(name, TAG_NAME, LENGTH(TAG_NAME) - 1)   ? &sent->tag
                   : is_text(name, KEYS_NAME, LENGTH(KEYS_NAME) - 1) ? &sent->keys
                                                                     : NULL;
    if (field) {
        *field = value;
        return 1;
    }
    if (is_text(name, WAIT_NAME, LENGTH(WAIT_NAME)))
        return !is_text(value, NO_WAIT, LENGTH(NO_WAIT));
    if (!is_storable(name) || !is_storable(value)) return 0;
    PyObject *key = PyBytes_FromStringAndSize((const char *)name.bytes, (Py_ssize_t)name.size);
    int is_reserved = key ? PySet_Contains(limits->reserved, key) : -1;
    Py_XDECREF(key);
    if (is_reserved) return is_reserved < 0 ? -1 : 0;
    byte *p = put_bytes(*own, name.bytes, name.size);
    *p++ = 1;
    p = put_bytes(p, value.bytes, value.size);
    *p++ = 2;
    *own = p;
    return 1;
}

/* Takes a property string apart; 1 if it is plain, 0 if not, -1 with an exception. */
static int take_properties(Sent *sent, Slice text, byte *own, const SentLimits *limits) {
    Slice names[NAMES_MAX];
    int count = 0, is_ascii = 1;
    byte *own_end = own;
    const byte *p = text.bytes, *end = p + text.size;
    while (p < end) {
        const byte *stop = memchr(p, 2, (size_t)(end - p));
        if (!stop) stop = end;
        const byte *middle = memchr(p, 1, (size_t)(stop - p));
        if (middle && middle > p && middle + 1 < stop) {
            Slice name = {p, (size_t)(middle - p)};
            Slice value = {middle + 1, (size_t)(stop - middle - 1)};
            int is_plain = take_property(sent, name, value, names, &count, &own_end, limits);
            if (is_plain != 1) return is_plain;
        }
        p = stop + 1;
    }
    for (size_t i = 0; i < text.size; i++) is_ascii &= text.bytes[i] < 0x80;
    if (!is_ascii) {
        PyObject *decoded = PyUnicode_DecodeUTF8((const char *)text.bytes, (Py_ssize_t)text.size,
                                                 NULL);
        if (!decoded) {
            PyErr_Clear();
            return 0;
        }
        Py_DECREF(decoded);
    }
    sent->own_size = (size_t)(own_end - own);
    return sent->own_size <= (size_t)limits->properties_max
        && is_good_id(sent->id.bytes, sent->id.size, (size_t)limits->id_max)
        && sent->tag.size <= (size_t)limits->tag_max
        && is_good_tag(sent->tag.bytes, sent->tag.size)
        && sent->keys.size <= (size_t)limits->keys_max
        && are_good_keys(sent->keys.bytes, sent->keys.size, limits->key_count_max);
}

/* The message at `p`, and where it ends; 1 if it is plain, 0 if not, -1 with an exception. */
static int take_sent(Sent *sent, const byte **at, const byte *end, byte *own,
                     const SentLimits *limits) {
    const byte *p = *at;
    Py_ssize_t left = end - p;
    *sent = (Sent){0};
    if (left < BODY_AT + 2) return 0;
    int32_t size = (int32_t)get_u32(p), body_size = (int32_t)get_u32(p + 16);
    if (body_size <= 0 || body_size > limits->body_max || body_size > left - BODY_AT - 2) return 0;
    const byte *behind = p + BODY_AT + body_size;
    int16_t length = (int16_t)get_u16(behind);
    if (length < 0 || size != BODY_AT + body_size + 2 + length || size > left) return 0;
    sent->body = (Slice){p + BODY_AT, (size_t)body_size};
    sent->flag = get_u32(p + 12);
    *at = p + size;
    return take_properties(sent, (Slice){behind + 2, (size_t)length}, own, limits);
}

/* A column of texts: lengths, then the texts. */
static byte *put_texts(byte *p, const Sent *rows, Py_ssize_t count, size_t field) {
    for (Py_ssize_t i = 0; i < count; i++)
        p = put_u16(p, (uint32_t)((const Slice *)((const byte *)&rows[i] + field))->size);
    for (Py_ssize_t i = 0; i < count; i++) {
        const Slice *text = (const Slice *)((const byte *)&rows[i] + field);
        if (text->size) p = put_bytes(p, text->bytes, text->size);
    }
    return p;
}

static PyObject *columns_of_rows(const Sent *rows, Py_ssize_t count, const byte *own,
                                 Py_ssize_t end) {
    size_t bodies = 0, ids = 0, tags = 0, keys = 0, own_size = 0;
    uint32_t flags = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        bodies += rows[i].body.size;
        ids += rows[i].id.size;
        tags += rows[i].tag.size;
        keys += rows[i].keys.size;
        own_size += rows[i].own_size;
        flags |= rows[i].flag;
    }
    Py_ssize_t lengths = 2 * count, at = 4 * count + (Py_ssize_t)bodies;
    Py_ssize_t ids_at = at, tags_at = -1, keys_at = -1, own_at = -1, flags_at = -1;
    at += lengths + (Py_ssize_t)ids;
    if (tags) { tags_at = at; at += lengths + (Py_ssize_t)tags; }
    if (keys) { keys_at = at; at += lengths + (Py_ssize_t)keys; }
    if (own_size) { own_at = at; at += lengths + (Py_ssize_t)own_size; }
    if (flags) { flags_at = at; at += 8 * count; }
    PyObject *data = PyBytes_FromStringAndSize(NULL, at);
    if (!data) return NULL;
    byte *p = (byte *)PyBytes_AsString(data);
    for (Py_ssize_t i = 0; i < count; i++) p = put_u32(p, (uint32_t)rows[i].body.size);
    for (Py_ssize_t i = 0; i < count; i++)
        p = put_bytes(p, rows[i].body.bytes, rows[i].body.size);
    p = put_texts(p, rows, count, offsetof(Sent, id));
    if (tags) p = put_texts(p, rows, count, offsetof(Sent, tag));
    if (keys) p = put_texts(p, rows, count, offsetof(Sent, keys));
    if (own_size) {
        for (Py_ssize_t i = 0; i < count; i++) p = put_u16(p, (uint32_t)rows[i].own_size);
        p = put_bytes(p, own, own_size);
    }
    if (flags)
        for (Py_ssize_t i = 0; i < count; i++)
            p = put_u64(p, (uint64_t)(int64_t)(int32_t)rows[i].flag);
    return Py_BuildValue("Nnnnnnnnn", data, count, end, (Py_ssize_t)bodies, ids_at, tags_at,
                         keys_at, own_at, flags_at);
}

static PyObject *batch_columns(PyObject *self, PyObject *args) {
    const char *data;
    Py_ssize_t size, start, count_max, count = 0;
    SentLimits limits;
    (void)self;
    if (!PyArg_ParseTuple(args, "y#nnnnninnO", &data, &size, &start, &count_max,
                          &limits.body_max, &limits.tag_max, &limits.keys_max,
                          &limits.key_count_max, &limits.id_max, &limits.properties_max,
                          &limits.reserved))
        return NULL;
    if (start < 0 || start > size || count_max < 0) {
        PyErr_SetString(PyExc_ValueError, "no place in a batch");
        return NULL;
    }
    Py_ssize_t rows_max = (size - start) / (BODY_AT + 2);
    if (rows_max > count_max) rows_max = count_max;
    Sent *rows = PyMem_Malloc((size_t)(rows_max ? rows_max : 1) * sizeof(Sent));
    byte *own = PyMem_Malloc((size_t)(size - start) + 2); /* a last property may lack its end */
    PyObject *result = NULL;
    if (!rows || !own) {
        PyErr_NoMemory();
        goto done;
    }
    const byte *at = (const byte *)data + start, *end = (const byte *)data + size;
    byte *own_end = own;
    while (count < rows_max) {
        const byte *next = at;
        int is_plain = take_sent(&rows[count], &next, end, own_end, &limits);
        if (is_plain < 0) goto done;
        if (!is_plain) break;
        own_end += rows[count++].own_size;
        at = next;
    }
    result = columns_of_rows(rows, count, own, at - (const byte *)data);
done:
    PyMem_Free(rows);
    PyMem_Free(own);
    return result;
}

/* -- the key index ----------------------------------------------------------------------------- */

#define ITEM_BYTES 20

static PyObject *index_items(PyObject *self, PyObject *args) {
    PyObject *slots_object;
    Py_buffer slots = {0}, hashes = {0}, places = {0};
    long long seconds, number;
    PyObject *result = NULL;
    (void)self;
    PyObject *hashes_object, *places_object;
    if (!PyArg_ParseTuple(args, "OOOLL", &slots_object, &hashes_object, &places_object, &seconds,
                          &number))
        return NULL;
    if (PyObject_GetBuffer(slots_object, &slots, PyBUF_WRITABLE)) return NULL;
    if (PyObject_GetBuffer(hashes_object, &hashes, PyBUF_SIMPLE)) goto done;
    if (PyObject_GetBuffer(places_object, &places, PyBUF_SIMPLE)) goto done;
    Py_ssize_t count = hashes.len / 4, slot_count = slots.len / 4;
    if (places.len != count * 8 || hashes.len % 4 || slot_count < 1) {
        PyErr_SetString(PyExc_ValueError, "hashes and places do not belong together");
        goto done;
    }
    result = PyBytes_FromStringAndSize(NULL, count * ITEM_BYTES);
    if (!result) goto done;
    byte *p = (byte *)PyBytes_AsString(result);
    for (Py_ssize_t i = 0; i < count; i++) {
        uint32_t hash = ((const uint32_t *)hashes.buf)[i];
        int32_t *slot = (int32_t *)slots.buf + hash % (uint64_t)slot_count;
        p = put_u64(put_u32(p, hash), (uint64_t)((const int64_t *)places.buf)[i]);
        p = put_u32(put_u32(p, (uint32_t)seconds), (uint32_t)*slot);
        *slot = (int32_t)number++;
    }
done:
    if (slots.obj) PyBuffer_Release(&slots);
    if (hashes.obj) PyBuffer_Release(&hashes);
    if (places.obj) PyBuffer_Release(&places);
    return result;
}

/* -- decoding ---------------------------------------------------------------------------------- */

#define MAGIC_V1 0xDAA320A7u
#define MAGIC_V2 0xDAA320ABu
#define HEAD_BYTES 88
#define FLAGS_LAST 39
#define V6_MORE 12 /* bytes that an IPv6 host takes more than an IPv4 host */

/* The value of the last record, where this one has the same bytes. */
typedef struct { const byte *bytes; Py_ssize_t size; PyObject *value; } Last;

static PyObject *take_last(Last *last, const byte *bytes, Py_ssize_t size) {
    if (!last->value || last->size != size || memcmp(last->bytes, bytes, (size_t)size)) return NULL;
    return Py_NewRef(last->value);
}
static PyObject *keep_last(Last *last, const byte *bytes, Py_ssize_t size, PyObject *value) {
    if (!value) return NULL;
    Py_XDECREF(last->value);
    *last = (Last){bytes, size, Py_NewRef(value)};
    return value;
}

static PyObject *host_of(Last *last, const byte *bytes, Py_ssize_t size, PyObject *unpack_host) {
    PyObject *value = take_last(last, bytes, size);
    if (value) return value;
    return keep_last(last, bytes, size,
                     PyObject_CallFunction(unpack_host, "y#", (const char *)bytes, size));
}

static int set_number(PyObject *fields, Py_ssize_t index, long long value) {
    PyObject *number = PyLong_FromLongLong(value);
    return number && !PyTuple_SetItem(fields, index, number);
}
static int set_object(PyObject *fields, Py_ssize_t index, PyObject *value) {
    return value && !PyTuple_SetItem(fields, index, value);
}

/* Where the parts of a record lie, counted from its first byte. */
typedef struct {
    const byte *p;
    Py_ssize_t size, body_at, body_size, topic_at, topic_size, properties_at, crc_at;
    Py_ssize_t born_size, store_size;
} Parts;

#define BORN_HOST_AT 48

/* Whether the record at `at` is whole and has a CRC of its own. */
static int find_parts(const byte *data, Py_ssize_t data_size, Py_ssize_t at, Parts *r) {
    if (at < 0 || at > data_size - HEAD_BYTES) return 0;
    const byte *p = r->p = data + at;
    Py_ssize_t left = data_size - at;
    r->born_size = p[FLAGS_LAST] & 0x10 ? 8 + V6_MORE : 8;
    r->store_size = p[FLAGS_LAST] & 0x20 ? 8 + V6_MORE : 8;
    r->body_at = HEAD_BYTES - 16 + r->born_size + r->store_size;
    if (r->body_at > left) return 0;
    r->size = (int32_t)get_u32(p);
    r->body_size = (int32_t)get_u32(p + r->body_at - 4);
    uint32_t magic = get_u32(p + 4);
    if (r->size > left || r->body_size < 0 || r->body_size > left) return 0;
    if (magic != MAGIC_V1 && magic != MAGIC_V2) return 0;
    Py_ssize_t length_size = magic == MAGIC_V1 ? 1 : 2;
    r->crc_at = r->size - CRC_BYTES;
    r->topic_at = r->body_at + r->body_size + length_size;
    if (r->topic_at > r->crc_at) return 0;
    const byte *length = p + r->topic_at - length_size;
    r->topic_size = magic == MAGIC_V1 ? length[0] : (int16_t)get_u16(length);
    r->properties_at = r->topic_at + r->topic_size + 2;
    if (r->topic_size < 1 || r->properties_at > r->crc_at) return 0;
    if (r->properties_at + (int16_t)get_u16(p + r->properties_at - 2) != r->size) return 0;
    byte crc[CRC_BYTES];
    put_crc(crc, crc_of(p, (size_t)r->crc_at));
    return !memcmp(crc, p + r->crc_at, CRC_BYTES);
}

/* The fields of the record at `at`; None for one that is not whole, or has no CRC of its own. */
static PyObject *decode_one(const byte *data, Py_ssize_t data_size, Py_ssize_t at, Last last[3],
                            PyObject *unpack_host) {
    Parts r;
    if (!find_parts(data, data_size, at, &r)) Py_RETURN_NONE;
    const byte *p = r.p, *born = p + BORN_HOST_AT, *stored = born + r.born_size;
    const byte *store = stored + 8, *behind = store + r.store_size;
    PyObject *topic = take_last(&last[0], p + r.topic_at, r.topic_size);
    if (!topic) {
        topic = PyUnicode_DecodeUTF8((const char *)p + r.topic_at, r.topic_size, NULL);
        if (!topic) {
            PyErr_Clear();
            Py_RETURN_NONE;
        }
        keep_last(&last[0], p + r.topic_at, r.topic_size, topic);
    }
    PyObject *fields = PyTuple_New(15);
    if (!fields) {
        Py_DECREF(topic);
        return NULL;
    }
    if (set_object(fields, 0, topic)
        && set_number(fields, 1, (int32_t)get_u32(p + 12))
        && set_number(fields, 2, (int64_t)get_u64(p + 20))
        && set_number(fields, 3, (int64_t)get_u64(p + 28))
        && set_number(fields, 4, r.size)
        && set_object(fields, 5, PyBytes_FromStringAndSize((const char *)p + r.body_at, r.body_size))
        && set_object(fields, 6, PyBytes_FromStringAndSize((const char *)p + r.properties_at,
                                                           r.crc_at - r.properties_at))
        && set_number(fields, 7, (int32_t)get_u32(p + 16))
        && set_number(fields, 8, (int32_t)get_u32(p + 36))
        && set_number(fields, 9, (long long)(int32_t)get_u32(behind) + 1)
        && set_number(fields, 10, (int64_t)get_u64(p + 40))
        && set_object(fields, 11, host_of(&last[1], born, r.born_size, unpack_host))
        && set_number(fields, 12, (int64_t)get_u64(stored))
        && set_object(fields, 13, host_of(&last[2], store, r.store_size, unpack_host))
        && set_number(fields, 14, (int64_t)get_u64(behind + 4)))
        return fields;
    Py_DECREF(fields);
    return NULL;
}

static PyObject *decode_records(PyObject *self, PyObject *args) {
    const char *data;
    Py_ssize_t size;
    PyObject *starts, *make, *unpack_host;
    Last last[3] = {{0}};
    (void)self;
    if (!PyArg_ParseTuple(args, "y#OOO", &data, &size, &starts, &make, &unpack_host)) return NULL;
    Py_ssize_t count = PySequence_Size(starts);
    PyObject *results = count < 0 ? NULL : PyList_New(count);
    for (Py_ssize_t i = 0; results && i < count; i++) {
        PyObject *start = PySequence_GetItem(starts, i), *result = NULL;
        Py_ssize_t at = start ? PyLong_AsSsize_t(start) : -1;
        Py_XDECREF(start);
        if (!PyErr_Occurred())
            result = decode_one((const byte *)data, size, at, last, unpack_host);
        if (result && result != Py_None) {
            PyObject *fields = result;
            result = PyObject_CallObject(make, fields);
            Py_DECREF(fields);
        }
        if (!result || PyList_SetItem(results, i, result)) Py_CLEAR(results);
    }
    for (int i = 0; i < 3; i++) Py_XDECREF(last[i].value);
    return results;
}

/* -- columns of what was stored ---------------------------------------------------------------- */

#define FLAG_AT 16
#define OFFSET_AT 20
#define POSITION_AT 28
#define SYSTEM_FLAG_AT 36
#define BORN_MS_AT 40
#define COMPRESSED 1
#define COLUMNS 5

/* Whether the hash of the tag in a property block is `code`; not for a tag beyond ASCII. */
static int has_tag_code(const byte *p, const byte *end, int64_t code) {
    uint32_t hash = 0;
    while (p < end) {
        const byte *next = memchr(p, 2, (size_t)(end - p));
        if (!next) next = end;
        if (next - p > LENGTH(TAG_NAME) && !memcmp(p, TAG_NAME, (size_t)LENGTH(TAG_NAME))) {
            hash = 0;
            for (p += LENGTH(TAG_NAME); p < next; p++) {
                if (*p >= 0x80) return 0;
                hash = hash * 31 + *p;
            }
        }
        p = next + 1;
    }
    return (int32_t)hash == code;
}

/* Whether the record of an entry is plain, and is what it should be. */
static int is_plain(const Parts *r, const byte *entry, long long offset, int queue,
                    const char *topic, Py_ssize_t topic_size) {
    const byte *p = r->p;
    return !memcmp(p + POSITION_AT, entry, 8) && !memcmp(p, entry + 8, 4)
        && (int64_t)get_u64(p + OFFSET_AT) == offset && (int32_t)get_u32(p + 12) == queue
        && r->topic_size == topic_size && !memcmp(p + r->topic_at, topic, (size_t)topic_size)
        && !(get_u32(p + SYSTEM_FLAG_AT) & COMPRESSED)
        && has_tag_code(p + r->properties_at, p + r->crc_at, (int64_t)get_u64(entry + 12));
}

static byte *put_i32_wide(byte *p, uint32_t value) {
    return put_u64(p, (uint64_t)(int64_t)(int32_t)value);
}

static PyObject *stored_columns(PyObject *self, PyObject *args) {
    const char *data, *entries, *topic;
    Py_ssize_t data_size, entries_size, topic_size, plain = 0, body_bytes = 0, property_bytes = 0;
    Py_ssize_t size_bytes = 0;
    long long start, first_offset;
    int queue;
    (void)self;
    if (!PyArg_ParseTuple(args, "y#y#LLiy#", &data, &data_size, &entries, &entries_size, &start,
                          &first_offset, &queue, &topic, &topic_size))
        return NULL;
    Py_ssize_t count = entries_size / ENTRY_BYTES;
    Parts *parts = PyMem_Malloc((size_t)(count ? count : 1) * sizeof(Parts));
    if (!parts) return PyErr_NoMemory();
    for (; plain < count; plain++) {
        Parts *r = &parts[plain];
        const byte *entry = (const byte *)entries + plain * ENTRY_BYTES;
        long long at = (long long)(get_u64(entry) - (uint64_t)start);
        if (at < 0 || at > data_size) break;
        if (!find_parts((const byte *)data, data_size, (Py_ssize_t)at, r)) break;
        if (!is_plain(r, entry, first_offset + plain, queue, topic, topic_size)) break;
        size_bytes += r->size;
        body_bytes += r->body_size;
        property_bytes += r->crc_at - r->properties_at;
    }
    PyObject *columns[COLUMNS + 2] = {0}, *result = NULL;
    byte *at[COLUMNS];
    for (int i = 0; i < COLUMNS; i++)
        columns[i] = PyBytes_FromStringAndSize(NULL, plain * 8);
    columns[COLUMNS] = PyBytes_FromStringAndSize(NULL, plain * 4 + property_bytes);
    columns[COLUMNS + 1] = PyBytes_FromStringAndSize(NULL, plain * 4 + body_bytes);
    for (int i = 0; i < COLUMNS + 2; i++)
        if (!columns[i]) goto done;
    for (int i = 0; i < COLUMNS; i++) at[i] = (byte *)PyBytes_AsString(columns[i]);
    byte *property_size = (byte *)PyBytes_AsString(columns[COLUMNS]);
    byte *body_size = (byte *)PyBytes_AsString(columns[COLUMNS + 1]);
    byte *property = property_size + plain * 4, *body = body_size + plain * 4;
    for (const Parts *r = parts; r < parts + plain; r++) {
        const byte *p = r->p;
        at[0] = put_bytes(at[0], p + BORN_MS_AT, 8);
        at[1] = put_bytes(at[1], p + BORN_HOST_AT + r->born_size, 8);
        at[2] = put_bytes(at[2], p + POSITION_AT, 8);
        at[3] = put_i32_wide(at[3], get_u32(p + FLAG_AT));
        at[4] = put_i32_wide(at[4], get_u32(p + SYSTEM_FLAG_AT));
        size_t size = (size_t)(r->crc_at - r->properties_at);
        property_size = put_u32(property_size, (uint32_t)size);
        property = put_bytes(property, p + r->properties_at, size);
        body_size = put_u32(body_size, (uint32_t)r->body_size);
        body = put_bytes(body, p + r->body_at, (size_t)r->body_size);
    }
    result = Py_BuildValue("(nnOOOOOOO)", plain, size_bytes, columns[0], columns[1], columns[2],
                           columns[3], columns[4], columns[5], columns[6]);
done:
    for (int i = 0; i < COLUMNS + 2; i++) Py_XDECREF(columns[i]);
    PyMem_Free(parts);
    return result;
}

/* ---------------------------------------------------------------------------------------------- */

static PyMethodDef functions[] = {
    {"are_plain", are_plain, METH_VARARGS, NULL},
    {"encode_records", encode_records, METH_O, NULL},
    {"batch_columns", batch_columns, METH_VARARGS, NULL},
    {"index_items", index_items, METH_VARARGS, NULL},
    {"decode_records", decode_records, METH_VARARGS, NULL},
    {"stored_columns", stored_columns, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "compiled", "The compiled twin of pure.py.", -1, functions,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_compiled(void) {
    make_crc_table();
#ifdef HAS_FOLDING
    __builtin_cpu_init();
    can_fold = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
#endif
    return PyModule_Create(&module);
}
