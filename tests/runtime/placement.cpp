// Devices that operations are meant for: kept in graphs, and what sessions make of them.

#include "runtime/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "graph/device_scope.h"
#include "graph/op_def.h"
#include "sectionflow.h"
#include "tests/support/error_of.h"
#include "tests/support/log_lines.h"

namespace sectionflow::placement_tests {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing_support::LogLines;

using testing_support::error_of;

std::string device_of(const Value& value) {
  const auto named = named_devices(value.graph());
  const auto found = named.find(value.node().id());
  if (found == named.end()) return "none";
  return found->second.name + (found->second.is_soft ? "" : " only");
}

/// y = x w meant for a device, z = mean(y^2) for none.
struct Meant {
  explicit Meant(const DeviceScopeOptions& options = {}, const std::string& device = "cuda:1") {
    {
      const DeviceScope on(graph, device, options);
      y = matmul(x, w);
    }
    z = mean(square(y));
  }
  std::vector<HostTensor> run(Session& session) {
    session.initialize();
    return session.run(std::vector<Value>{z}, {{x, numbers}});
  }

  Graph graph;
  Value x = placeholder(graph, "x", {kDynamic, 2}), w = variable("w", fill(graph, {2, 2}, 2.0F)), y, z;
  const HostTensor numbers = HostTensor::of<float>({2, 2}, {1, 2, 3, 4});
};

std::vector<std::string> placement_logs(const LogLines& log) {
  std::vector<std::string> lines;
  for (const std::string& line : log.lines) {
    if (line.starts_with("placement: ")) lines.push_back(line);
  }
  return lines;
}

// ---- In the graph.

TEST(DeviceScope, MeansWhatIsMadeWhileItLives) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  Value outer, inner, later, after;
  {
    const DeviceScope on(graph, "cpu:1");
    outer = x + 1.0F;
    {
      const DeviceScope within(graph, "cuda:0", {.soft = false});
      inner = outer * 2.0F;
    }
    later = inner * 3.0F;
  }
  after = later + 4.0F;
  EXPECT_EQ(device_of(x), "none");
  EXPECT_EQ(device_of(outer), "cpu:1");
  EXPECT_EQ(device_of(inner), "cuda:0 only");
  EXPECT_EQ(device_of(later), "cpu:1");
  EXPECT_EQ(device_of(after), "none");
}

TEST(DeviceScope, RefusesWhatIsNoDevice) {
  Graph graph;
  for (const char* name : {"", "cpu", "gpu:0", "cpu:", "cuda:x", "cpu:12345", "cpu:00", "cuda:01"}) {
    EXPECT_THAT(error_of([&] { const DeviceScope on(graph, name); }),
                AllOf(HasSubstr("SF-E010"), HasSubstr("is no device"), HasSubstr("cuda:1")))
        << name;
  }
}

TEST(DeviceScope, MeansGradientsForTheDeviceOfTheirOperation) {
  Meant meant;
  const int before = meant.graph.num_nodes();
  (void)gradients(meant.z, {meant.w});
  const auto named = named_devices(meant.graph);
  int products = 0;
  for (NodeId id = before; id < meant.graph.num_nodes(); ++id) {
    const bool is_product = meant.graph.node(id).op().name == "matmul";
    products += is_product ? 1 : 0;
    EXPECT_EQ(named.contains(id), is_product) << meant.graph.node(id).label();
  }
  EXPECT_EQ(products, 1);
}

TEST(DeviceScope, IsKeptByFilesAndShownByPictures) {
  const Meant meant({.soft = false});
  Graph loaded;
  load_graph_text(loaded, graph_text(meant.graph));
  EXPECT_EQ(device_of(loaded.node(meant.y.node().id()).output()), "cuda:1 only");
  EXPECT_EQ(named_devices(loaded).size(), named_devices(meant.graph).size());
  std::ostringstream picture;
  write_dot(picture, loaded);
  EXPECT_THAT(picture.str(), HasSubstr("on cuda:1 only"));
}

TEST(DeviceScope, ThatAnExceptionEndsLeavesNothing) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  EXPECT_ANY_THROW(graph.all_or_nothing([&] {
    const DeviceScope on(graph, "cpu:1");
    (void)(x + 1.0F);
    throw std::runtime_error("no");
  }));
  EXPECT_THAT(named_devices(graph), IsEmpty());
  EXPECT_EQ(graph.num_nodes(), 1);
}

// ---- In a session.

TEST(Placement, OfADeviceThatTheSessionHasNotIsToldInOneLine) {
  Meant meant;
  Session session(meant.graph, {.threads = 1});
  session.initialize();
  const LogLines log;
  const HostTensor z = std::move(session.run(std::vector<Value>{meant.z}, {{meant.x, meant.numbers}})[0]);
  EXPECT_THAT(placement_logs(log), ElementsAre(AllOf(HasSubstr("1 operation that is meant for cuda:1"),
                                                     HasSubstr("is on cpu:0"), HasSubstr("matmul"))));
  Meant unnamed({}, "cpu:0");
  Session other(unnamed.graph, {.threads = 1});
  const LogLines none;
  EXPECT_EQ(first_difference(z, unnamed.run(other)[0]), "");
  EXPECT_THAT(placement_logs(none), IsEmpty());
}

TEST(Placement, OfWhatIsForItsDeviceAloneIsRefusedWithDevicesAndKernels) {
  Meant meant({.soft = false});
  Session session(meant.graph, {.threads = 1});
  EXPECT_THAT(error_of([&] { (void)meant.run(session); }),
              AllOf(HasSubstr("SF-E500 DeviceError"), HasSubstr("is to be on cuda:1 alone"),
                    HasSubstr("devices of the session: cpu:0"), HasSubstr("has kernels on: cpu")));
  // What does not need it runs.
  const Value sum = reduce_sum(meant.x);
  EXPECT_EQ(session.run(std::vector<Value>{sum}, {{meant.x, meant.numbers}})[0].item<float>(), 10);
}

TEST(Placement, IsToldALineAnOperationOnRequest) {
  Meant meant;
  Session session(meant.graph, {.threads = 1});
  EXPECT_THAT(error_of([&] { (void)placement_lines(session); }), AllOf(HasSubstr("SF-E010"), HasSubstr("no program")));
  (void)meant.run(session);
  const std::vector<std::string> lines = placement_lines(session);
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("matmul"), HasSubstr(": cpu:0, meant for cuda:1"))));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("square"), Not(HasSubstr("meant")))));
  const LogLines log;
  log_placement(session);
  EXPECT_EQ(log.lines.size(), lines.size());
  EXPECT_THAT(log.lines, Each(HasSubstr("placement: ")));
}

TEST(Placement, OfATowersOwnDeviceIsTaken) {
  const auto build = [](Graph& graph, GraphSectionManager&) {
    const Value x = placeholder(graph, "x", {kDynamic, 2});
    const DeviceScope on(graph, "cpu:1");
    return TowerOutputs{{"y", square(x)}};
  };
  Towers towers = make_parallel(build, {cpu(0, {.threads = 1}), cpu(1, {.threads = 1})}, {"x"});
  towers.initialize();
  const LogLines log;
  Example batch;
  batch.emplace("x", HostTensor::of<float>({2, 2}, {1, 2, 3, 4}));
  EXPECT_EQ(first_difference(towers.run(batch, {"y"}).at("y"), HostTensor::of<float>({2, 2}, {1, 4, 9, 16})), "");
  EXPECT_THAT(placement_logs(log), ElementsAre(HasSubstr("on cpu:0: square")));
}

}  // namespace
}  // namespace sectionflow::placement_tests
