// A client of the contract in C++: it makes the calls of cases.txtpb and prints a line for each case.
#include <grpcpp/grpcpp.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <future>
#include <iostream>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cases.grpc.pb.h"
#include "kvstore/v1/kvstore.grpc.pb.h"

using kvstore::v1::KeyValueService;
using kvstore::v1::PipelineRequest;
using kvstore::v1::PipelineResponse;

constexpr int usual_timeout_ms = 20000;

// The end of one call, and how its reply differs from the expected one.
struct End {
  grpc::Status status;
  std::string differs;
};

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::cerr << path << " cannot be read\n";
    std::exit(2);
  }
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string repeated(const std::string& value, unsigned copies) {
  std::string all;
  all.reserve(value.size() * copies);
  for (unsigned n = 0; n < copies; n++) all += value;
  return all;
}

template <typename Message>
void add(const Message& each, uint64_t more, unsigned copies, Message* all) {
  *all = each;
  all->set_id(each.id() + more);
  for (auto& value : *all->mutable_values()) value = repeated(value, copies);
}

// Returns the step with its copies and ids written out.
cases::Step prepared(const cases::Step& step) {
  const unsigned copies = std::max(1u, step.copies());
  cases::Step all = step;
  all.set_value(repeated(step.value(), copies));
  if (step.has_create()) {
    all.mutable_create()->set_value(repeated(step.create().value(), copies));
  }
  if (step.has_stream()) {
    auto* stream = all.mutable_stream();
    stream->clear_requests();
    stream->clear_replies();
    for (unsigned more = 0; more < std::max(1u, step.stream().repeated_for_ids()); more++) {
      for (const auto& each : step.stream().requests())
        add(each, more, copies, stream->add_requests());
      for (const auto& each : step.stream().replies())
        add(each, more, copies, stream->add_replies());
    }
  }
  return all;
}

// Cancels a call after some time, unless the block ends first.
class Cancellation {
 public:
  Cancellation(grpc::ClientContext& context, unsigned after_ms) {
    if (after_ms == 0) return;
    thread_ = std::thread([this, &context, after_ms] {
      std::unique_lock<std::mutex> lock(mutex_);
      if (!ended_.wait_for(lock, std::chrono::milliseconds(after_ms), [this] { return done_; }))
        context.TryCancel();
    });
  }
  ~Cancellation() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      done_ = true;
    }
    ended_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::thread thread_;
};

End pipeline(KeyValueService::Stub& stub, grpc::ClientContext& context, const cases::Stream& wanted) {
  auto stream = stub.Pipeline(&context);
  std::thread writer([&] {
    for (const auto& each : wanted.requests())
      if (!stream->Write(each)) return;  // Finish has the status
    stream->WritesDone();
  });
  std::vector<PipelineResponse> missing(wanted.replies().begin(), wanted.replies().end());
  PipelineResponse reply;
  std::string differs;
  while (stream->Read(&reply)) {
    auto expected = std::find_if(missing.begin(), missing.end(), [&](const auto& each) {
      return wanted.in_order() || each.id() == reply.id();
    });
    if (expected == missing.end()) {
      differs = "the reply with id " + std::to_string(reply.id()) + " was not expected";
      continue;
    }
    if (reply.detail().find(expected->detail()) != std::string::npos)
      reply.set_detail(expected->detail());
    if (!google::protobuf::util::MessageDifferencer::Equals(reply, *expected))
      differs = "expected the reply " + expected->ShortDebugString().substr(0, 200) + ", got " +
                reply.ShortDebugString().substr(0, 200);
    missing.erase(expected);
  }
  writer.join();
  grpc::Status status = stream->Finish();
  if (status.ok() && differs.empty() && !missing.empty())
    differs = std::to_string(missing.size()) + " replies are missing at the end of the stream";
  return {status, differs};
}

class Client {
 public:
  Client(const cases::Case& each, char** arguments) {
    std::string address = arguments[4];
    std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
    grpc::SslCredentialsOptions trusted;
    trusted.pem_root_certs = read(arguments[5]);
    switch (each.connection()) {
      case cases::PLAIN:
        address = arguments[2];
        break;
      case cases::SLOW:
        address = arguments[3];
        break;
      case cases::PLAIN_TO_TLS:
        break;
      case cases::TLS_OF_AN_UNKNOWN_AUTHORITY:
        credentials = grpc::SslCredentials({});
        break;
      default:
        credentials = grpc::SslCredentials(trusted);
    }
    if (each.connection() == cases::TLS_WITH_TOKEN) {
      const std::string word = read(arguments[6]);
      token_ = "Bearer " + word.substr(0, word.find_last_not_of(" \r\n") + 1);
    } else if (each.connection() == cases::TLS_WITH_ANOTHER_TOKEN) {
      token_ = "Bearer another-word-of-some-length";
    }
    channel_ = grpc::CreateChannel(address, credentials);
    stub_ = KeyValueService::NewStub(channel_);
  }

  // Makes the calls of a step; returns what was wrong.
  std::string take(const cases::Step& step) {
    const unsigned count = std::max(1u, step.at_once());
    std::vector<std::future<End>> calls;
    for (unsigned n = 0; n < count; n++)
      calls.push_back(std::async(std::launch::async, [&] { return call(step); }));
    std::string wrong;
    unsigned as_expected = 0;
    for (auto& each : calls) {
      const End end = each.get();
      const int code = end.status.error_code();
      const std::string said = end.status.error_message();
      if (!end.differs.empty()) {
        wrong = end.differs;
      } else if (code == step.status() && said.find(step.detail()) != std::string::npos) {
        as_expected++;
      } else if (count == 1 || code != step.others()) {
        wrong = "expected " + cases::Status_Name(step.status()) + " \"" + step.detail() +
                "\", got " + std::to_string(code) + " \"" + said + "\"";
      }
    }
    if (count > 1 && step.others() != step.status() && as_expected != 1 && wrong.empty())
      wrong = std::to_string(as_expected) + " calls ended " + cases::Status_Name(step.status()) +
              ", not one";
    return wrong;
  }

 private:
  End call(const cases::Step& step) {
    grpc::ClientContext context;
    const int timeout_ms = step.timeout_ms() ? step.timeout_ms() : usual_timeout_ms;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms));
    if (!token_.empty()) context.AddMetadata("authorization", token_);
    if (step.gzip()) context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
    Cancellation cancellation(context, step.cancel_after_ms());
    kvstore::v1::CreateResponse created;
    kvstore::v1::RetrieveResponse found;
    kvstore::v1::UpdateResponse updated;
    kvstore::v1::DeleteResponse deleted;
    switch (step.request_case()) {
      case cases::Step::kCreate:
        return {stub_->Create(&context, step.create(), &created), ""};
      case cases::Step::kUpdate:
        return {stub_->Update(&context, step.update(), &updated), ""};
      case cases::Step::kDelete:
        return {stub_->Delete(&context, step.delete_(), &deleted), ""};
      case cases::Step::kRetrieve: {
        const grpc::Status status = stub_->Retrieve(&context, step.retrieve(), &found);
        const bool same = !status.ok() || found.value() == step.value();
        return {status, same ? "" : "got a value of " + std::to_string(found.value().size()) + " bytes"};
      }
      case cases::Step::kNotServed:
        return {cases::NotServed::NewStub(channel_)->Retrieve(&context, step.not_served(), &found), ""};
      case cases::Step::kStream:
        return pipeline(*stub_, context, step.stream());
      default:
        return {grpc::Status::OK, "this step has no request that the client knows"};
    }
  }

  std::string token_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<KeyValueService::Stub> stub_;
};

// Arguments: the table, three addresses (plain, slow, TLS), the authority's certificate, the token.
int main(int count, char** arguments) {
  if (count != 7) {
    std::cerr << "usage: client TABLE PLAIN SLOW TLS CA.PEM TOKEN.TXT\n";
    return 2;
  }
  cases::Cases table;
  if (!google::protobuf::TextFormat::ParseFromString(read(arguments[1]), &table)) return 2;
  bool failed = false;
  for (const auto& each : table.cases()) {
    Client client(each, arguments);
    std::string wrong;
    for (int n = 0; n < each.steps_size() && wrong.empty(); n++) {
      wrong = client.take(prepared(each.steps(n)));
      if (!wrong.empty()) wrong = "step " + std::to_string(n + 1) + ": " + wrong;
    }
    failed |= !wrong.empty();
    std::cout << (wrong.empty() ? "ok " + each.name() : "FAILED " + each.name() + ": " + wrong)
              << std::endl;
  }
  return failed ? 1 : 0;
}
