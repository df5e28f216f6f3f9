/* The signatures of a zip archive's records, and their sizes in bytes without names and other fields of variable length. */
#ifndef DDM_FILE_ZIPIMPL_H
#define DDM_FILE_ZIPIMPL_H

enum {
	LOCAL = 0x04034b50,
	CENTRAL = 0x02014b50,
	END = 0x06054b50,
	END64 = 0x06064b50,
	LOCATOR64 = 0x07064b50,
	LOCAL_BYTES = 30,
	CENTRAL_BYTES = 46,
	END_BYTES = 22,
	END64_BYTES = 56,
	LOCATOR64_BYTES = 20
};

#endif
