// Files of Python's package `safetensors` load here, and ours load there. Needs a Python with `safetensors` and
// `numpy`: the environment variable SECTIONFLOW_PYTHON, or python3.

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "data/safetensors.h"
#include "tests/support/resumable_training.h"
#include "tests/support/temporary_folder.h"
#include "train/checkpoints.h"

namespace sectionflow {
namespace {

using namespace testing_support;

class PythonSafetensors : public testing::Test {
 protected:
  void SetUp() override {
    if (run("import safetensors.numpy, numpy") != 0)
      GTEST_SKIP() << "'" << python() << "' has no packages safetensors and numpy (SECTIONFLOW_PYTHON names another)";
  }
  static std::string python() {
    const char* named = std::getenv("SECTIONFLOW_PYTHON");
    return named != nullptr ? named : "python3";
  }
  /// Runs a program whose argument is the folder. Returns its exit status.
  int run(const std::string& program) const {
    const std::string file = folder_.file("program.py", program).string();
    return std::system(("'" + python() + "' '" + file + "' '" + folder_.path().string() + "' 2>/dev/null").c_str());
  }

  TemporaryFolder folder_;
};

TEST_F(PythonSafetensors, LoadsWhatIsSavedHereAndWhatItSavesLoadsHere) {
  ResumableTraining saved(Way::whole, {.seed = 1});
  saved.train(2);
  save_variables(*saved.session, (folder_.path() / "ours.safetensors").string());
  Checkpoints checkpoints((folder_.path() / "run").string());
  ASSERT_TRUE(checkpoints.save(*saved.session, {.step = 2}));
  ASSERT_EQ(run(R"(
import sys, numpy
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
ours = load_file(sys.argv[1] + "/ours.safetensors")
checkpoint = load_file(sys.argv[1] + "/run/step-2/variables.safetensors")
assert sorted(ours) == sorted(checkpoint) and len(ours) > 20
assert all(numpy.array_equal(ours[name], checkpoint[name]) for name in ours)
assert ours["adam_steps"].dtype == numpy.int64 and ours["adam_steps"] == 2
with safe_open(sys.argv[1] + "/ours.safetensors", "numpy") as file:
    assert file.metadata()["format"] == "sectionflow" and file.metadata()["completed_cycles"] == "2"
save_file(ours, sys.argv[1] + "/theirs.safetensors", {"format": "np"})
)"),
            0);
  ResumableTraining loaded(Way::whole);
  const LoadReport report = load_variables(*loaded.session, (folder_.path() / "theirs.safetensors").string());
  EXPECT_TRUE(report.kept.empty());
  EXPECT_EQ(report.completed_cycles, std::nullopt) << "the file does not tell";
  EXPECT_EQ(first_difference({read_variables(*saved.session), {}}, {read_variables(*loaded.session), {}}), "");
}

TEST_F(PythonSafetensors, HasEveryDtypeAndShapeThatIsReadHere) {
  ASSERT_EQ(run(R"(
import sys, numpy
from safetensors.numpy import save_file
save_file({"scalar": numpy.array(1.5, numpy.float32), "empty": numpy.zeros((0, 3), numpy.float64),
           "bool": numpy.array([True, False]), "u8": numpy.arange(5, dtype=numpy.uint8),
           "i32": numpy.arange(-3, 3, dtype=numpy.int32).reshape(2, 3), "i64": numpy.array([2**62], numpy.int64),
           "nan": numpy.array([0x7fc12345], numpy.uint32).view(numpy.float32), "größe/ü": numpy.ones(1, numpy.float32)},
          sys.argv[1] + "/all.safetensors")
)"),
            0);
  std::map<std::string, HostTensor> tensors;
  for (NamedTensor& each : read_safetensors(folder_.path() / "all.safetensors").tensors)
    tensors[each.name] = std::move(each.tensor);
  ASSERT_EQ(tensors.size(), 8U);
  EXPECT_EQ(tensors.at("scalar").item<float>(), 1.5F);
  EXPECT_EQ(tensors.at("empty").type(), (TensorType{Dtype::f64, {0, 3}}));
  EXPECT_EQ(tensors.at("bool").type(), (TensorType{Dtype::boolean, {2}}));
  EXPECT_EQ(tensors.at("u8").values<std::uint8_t>()[4], 4);
  EXPECT_EQ(tensors.at("i32").values<std::int32_t>()[0], -3);
  EXPECT_EQ(tensors.at("i64").item<std::int64_t>(), std::int64_t{1} << 62);
  EXPECT_EQ(*reinterpret_cast<const std::uint32_t*>(tensors.at("nan").bytes()), 0x7fc12345U);
  EXPECT_EQ(tensors.at("größe/ü").item<float>(), 1.0F);
}

}  // namespace
}  // namespace sectionflow
