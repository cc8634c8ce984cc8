// Misuse of what is outside: threads, devices, files.

#include <cstring>
#include <thread>

#include "base/bytes.h"
#include "base/one_at_a_time.h"
#include "data/safetensors.h"
#include "tests/misuse/misuse_case.h"
#include "train/checkpoint.h"

namespace sectionflow::testing {
namespace {

std::string thread_text(std::thread::id id) {
  return text_of(id);
}

/// The text of the ArgumentError that `call` throws on another thread, and that thread's name.
template <class Call>
std::pair<std::string, std::string> refused_on_another_thread(const Call& call) {
  std::pair<std::string, std::string> result;
  std::thread other([&] {
    result.second = thread_text(std::this_thread::get_id());
    try {
      call();
      result.first = "no error";
    } catch (const ArgumentError& error) {
      result.first = error.what();
    }
  });
  other.join();
  return result;
}

std::string two_threads(const std::string& object, const std::string& second, int number) {
  return text_of("SF-E012 ArgumentError: ", object, " is in use by thread ", std::this_thread::get_id(), "; thread ",
                 second, " came in at the same time; one thread at a time may use it\n  where:   ", line(number),
                 "\n  hint:    let the threads take turns, or give each an object of its own");
}

TEST(MisuseThreads, ASecondThreadInASessionIsRefusedAndTheFirstIsNotDisturbed) {
  Graph graph;
  GraphSectionManager manager(graph);
  SmallNet net(graph, manager);
  manager.add_training_ops(Adam{.learning_rate = 1e-2F}, net.loss, {.verbose = true});
  manager.prepare_training();
  Session session(graph, {.threads = 2});
  session.initialize();
  // A line that the cycle logs is a moment at which this thread is inside for certain.
  std::vector<std::pair<std::string, std::string>> refused;
  int number = 0;
  HostTensor loss;
  {
    LogLines log;
    log.on_line = [&] {
      if (!refused.empty()) return;
      refused.push_back(refused_on_another_thread([&] { (void)session.run(net.loss, net.feeds()); }));
      refused.push_back(refused_on_another_thread([&] { (void)session.read(graph.values(kVariables)[0]); }));
      refused.push_back(
          refused_on_another_thread([&] { (void)manager.run_full_cycle(session, {net.loss}, net.feeds()); }));
      number = __LINE__ - 1;
    };
    auto [found] = manager.run_full_cycle(session, {net.loss}, net.feeds());
    loss = std::move(found);
  }
  ASSERT_EQ(refused.size(), 3U);
  EXPECT_EQ(refused[0].first, two_threads("the session", refused[0].second, number - 3));
  EXPECT_EQ(refused[1].first, two_threads("the session", refused[1].second, number - 2));
  EXPECT_EQ(refused[2].first, two_threads("the section manager", refused[2].second, number));
  SmallTraining undisturbed;
  const auto [wanted] =
      undisturbed.manager.run_full_cycle(*undisturbed.session, {undisturbed.net.loss}, undisturbed.net.feeds());
  EXPECT_TRUE(bitwise_equal(wanted, loss));
  EXPECT_EQ(first_difference(undisturbed.state(), {read_variables(session), {}}), "");
}

TEST(MisuseThreads, ThreadsThatTakeTurnsAreWelcome) {
  SmallTraining t;
  std::thread([&] { (void)t.manager.run_full_cycle(*t.session, {t.net.loss}, t.net.feeds()); }).join();
  (void)t.manager.run_full_cycle(*t.session, {t.net.loss}, t.net.feeds());
  EXPECT_EQ(t.session->completed_cycles(), 2U);
}

TEST(MisuseThreads, ASecondThreadThatBuildsIsRefused) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  graph.build_at(Where::here(), [&] {
    const auto [text, second] = refused_on_another_thread([&] { (void)relu(x); });
    EXPECT_EQ(text, text_of("SF-E012 ArgumentError: the graph is in use by thread ", std::this_thread::get_id(),
                            "; thread ", second,
                            " came in at the same time; one thread at a time may use it\n  hint:    let the threads "
                            "take turns, or give each an object of its own"));
    EXPECT_EQ(graph.num_nodes(), 1);
    return relu(x);
  });
  std::thread([&] { (void)relu(x); }).join();
  EXPECT_EQ(graph.num_nodes(), 3);
}

TEST(MisuseDevices, AnUnknownDeviceNamesThoseThatAreKnown) {
  Graph graph;
  const State state = [&] { return StateHash().add(graph).value(); };
  expect_refused<DeviceError>(
      state, [&] { Session session(graph, {.device = {static_cast<DeviceKind>(7)}}); },
      "SF-E500 DeviceError: there is no device of kind 7; devices known: cpu, cuda"
      "\n  where:   " +
          line(__LINE__ - 3) + "\n  hint:    take {.device = cpu()}");
  Session session(graph, {.device = cpu(), .device_memory = 1_MiB, .threads = 1});
  session.initialize();
}

TEST(MisuseDevices, AnImpossibleNumberOfThreads) {
  Graph graph;
  const State state = [&] { return StateHash().add(graph).value(); };
  expect_refused<ArgumentError>(
      state, [&] { Session session(graph, {.threads = -1}); },
      "SF-E010 ArgumentError: cpu: -1 threads; wanted 1 to 1024, or 0 for every core"
      "\n  where:   " +
          line(__LINE__ - 3));
}

TEST(MisuseDevices, ABudgetThatTheMachineRefusesLeavesTheSessionWithoutValues) {
  Graph graph;
  const Value w = variable("w", fill(graph, {2}, 1));
  Session session(graph, {.device_memory = std::size_t{1} << 62, .threads = 1});
  const State state = [&] {
    return StateHash().add(graph).add(static_cast<std::int64_t>(session.completed_cycles())).value();
  };
  expect_refused<DeviceError>(
      state, [&] { session.initialize(); },
      text_of("SF-E500 DeviceError: cpu: ", bytes_text(std::size_t{1} << 62), " of memory were refused: ",
              std::strerror(ENOMEM), "; try a smaller device_memory\n  where:   ", line(__LINE__ - 2)));
  EXPECT_THROW((void)session.read(w), ArgumentError);
}

TEST(MisuseFiles, AFolderThatIsMissing) {
  SmallTraining t;
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "missing" / "weights.safetensors").string();
  const std::uint64_t before = state_of(t)();
  const std::string text = whole_error_text<DataError>([&] { save_variables(*t.session, path); });
  EXPECT_EQ(text.find("SF-E400 DataError: "), 0U) << text;
  EXPECT_NE(text.find(path), std::string::npos) << text;
  EXPECT_NE(text.find(std::strerror(ENOENT)), std::string::npos) << text;
  EXPECT_EQ(state_of(t)(), before);
  EXPECT_EQ(folder.num_files(), 0U);
  save_variables(*t.session, (folder.path() / "weights.safetensors").string());
  EXPECT_EQ(read_safetensors(folder.path() / "weights.safetensors").tensors.size(), t.graph.values(kVariables).size());
  expect_trains(t);
}

TEST(MisuseFiles, ADamagedFileIsNamed) {
  const TemporaryFolder folder;
  const auto path = folder.file("weights.safetensors", std::string_view("\x10\0\0\0\0\0\0\0{\"w\":", 13));
  EXPECT_EQ(whole_error_text<DataError>([&] { (void)read_safetensors(path); }),
            text_of("SF-E400 DataError: read_safetensors: '", path.string(),
                    "': declares a header of 16 bytes but only 5 follow; is the file complete?"));
}

}  // namespace
}  // namespace sectionflow::testing
