#pragma once

#include <glog/logging.h>

#include <string>
#include <vector>

namespace sectionflow::testing_support {

/// Collects what glog writes while it lives.
class LogLines final : public google::LogSink {
 public:
  LogLines() { google::AddLogSink(this); }
  ~LogLines() override { google::RemoveLogSink(this); }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;
  using google::LogSink::send;
  void send(google::LogSeverity, const char*, const char*, int, const google::LogMessageTime&, const char* message,
            std::size_t length) override {
    lines.emplace_back(message, length);
  }

  std::vector<std::string> lines;
};

}  // namespace sectionflow::testing_support
