#pragma once

// Everything that users of sectionflow::sources call.

#include "sources/class_names.h"
#include "sources/convert.h"
#include "sources/hdf5.h"
#include "sources/image.h"
#include "sources/image_folder.h"
#include "sources/lmdb.h"
#include "sources/npz.h"
