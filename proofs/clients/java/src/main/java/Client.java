import cases.Case;
import cases.Cases;
import cases.NotServedGrpc;
import cases.Step;
import cases.Stream;
import com.google.protobuf.ByteString;
import com.google.protobuf.TextFormat;
import io.grpc.Context;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.TlsChannelCredentials;
import io.grpc.stub.AbstractStub;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.StreamObserver;
import java.io.File;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import kvstore.v1.KeyValueServiceGrpc;
import kvstore.v1.Kvstore.PipelineRequest;
import kvstore.v1.Kvstore.PipelineResponse;

/** A client of the contract in Java: it makes the calls of cases.txtpb and prints a line for each case. */
public final class Client {
  private static final int USUAL_TIMEOUT_MS = 20_000;
  private static final ScheduledExecutorService TIMER = Executors.newScheduledThreadPool(1);
  private static final ExecutorService CALLERS = Executors.newCachedThreadPool();

  private final ManagedChannel channel;
  private final String token;

  /** Arguments: the table, three addresses (plain, slow, TLS), the authority's certificate, the token. */
  public static void main(String[] arguments) throws Exception {
    if (arguments.length != 6) {
      System.err.println("usage: Client TABLE PLAIN SLOW TLS CA.PEM TOKEN.TXT");
      System.exit(2);
    }
    Cases table = TextFormat.parse(Files.readString(Path.of(arguments[0])), Cases.class);
    boolean failed = false;
    for (Case each : table.getCasesList()) {
      String wrong = run(each, arguments);
      failed |= !wrong.isEmpty();
      System.out.println(wrong.isEmpty() ? "ok " + each.getName() : "FAILED " + each.getName() + ": " + wrong);
    }
    System.exit(failed ? 1 : 0);
  }

  private static String run(Case each, String[] arguments) throws Exception {
    Client client = new Client(each, arguments);
    try {
      int number = 0;
      for (Step step : each.getStepsList()) {
        number++;
        String wrong = client.take(prepared(step));
        if (!wrong.isEmpty()) {
          return "step " + number + ": " + wrong;
        }
      }
      return "";
    } finally {
      client.channel.shutdownNow();
    }
  }

  private Client(Case each, String[] arguments) throws Exception {
    File authority = new File(arguments[4]);
    var trusting = TlsChannelCredentials.newBuilder();
    channel =
        switch (each.getConnection()) {
          case PLAIN -> Grpc.newChannelBuilder(arguments[1], InsecureChannelCredentials.create()).build();
          case SLOW -> Grpc.newChannelBuilder(arguments[2], InsecureChannelCredentials.create()).build();
          case PLAIN_TO_TLS -> Grpc.newChannelBuilder(arguments[3], InsecureChannelCredentials.create()).build();
          case TLS_OF_AN_UNKNOWN_AUTHORITY -> Grpc.newChannelBuilder(arguments[3], trusting.build()).build();
          default -> Grpc.newChannelBuilder(arguments[3], trusting.trustManager(authority).build()).build();
        };
    token =
        switch (each.getConnection()) {
          case TLS_WITH_TOKEN -> "Bearer " + Files.readString(Path.of(arguments[5])).strip();
          case TLS_WITH_ANOTHER_TOKEN -> "Bearer another-word-of-some-length";
          default -> "";
        };
  }

  /** Returns the step with its copies and ids written out. */
  private static Step prepared(Step step) {
    int copies = Math.max(1, step.getCopies());
    Step.Builder all = step.toBuilder().setValue(repeated(step.getValue(), copies));
    if (step.hasCreate()) {
      all.getCreateBuilder().setValue(repeated(step.getCreate().getValue(), copies));
    }
    if (step.hasStream()) {
      Stream.Builder stream = all.getStreamBuilder().clearRequests().clearReplies();
      for (int more = 0; more < Math.max(1, step.getStream().getRepeatedForIds()); more++) {
        for (PipelineRequest each : step.getStream().getRequestsList()) {
          var request = each.toBuilder().setId(each.getId() + more).clearValues();
          each.getValuesList().forEach(value -> request.addValues(repeated(value, copies)));
          stream.addRequests(request);
        }
        for (PipelineResponse each : step.getStream().getRepliesList()) {
          var reply = each.toBuilder().setId(each.getId() + more).clearValues();
          each.getValuesList().forEach(value -> reply.addValues(repeated(value, copies)));
          stream.addReplies(reply);
        }
      }
    }
    return all.build();
  }

  private static ByteString repeated(ByteString value, int copies) {
    ByteBuffer all = ByteBuffer.allocate(value.size() * copies);
    for (int n = 0; n < copies; n++) {
      value.copyTo(all);
    }
    return ByteString.copyFrom(all.flip());
  }

  /** Makes the calls of a step; returns what was wrong. */
  private String take(Step step) throws InterruptedException {
    int count = Math.max(1, step.getAtOnce());
    List<Future<String>> calls = new ArrayList<>();
    for (int n = 0; n < count; n++) {
      calls.add(CALLERS.submit(() -> call(step)));
    }
    String wrong = "";
    int asExpected = 0;
    for (Future<String> call : calls) {
      Status ended = Status.OK;
      String differs = "";
      try {
        differs = call.get();
      } catch (ExecutionException error) {
        ended = Status.fromThrowable(error.getCause());
      }
      String said = ended.getDescription() == null ? "" : ended.getDescription();
      int code = ended.getCode().value();
      if (!differs.isEmpty()) {
        wrong = differs;
      } else if (code == step.getStatusValue() && said.contains(step.getDetail())) {
        asExpected++;
      } else if (count == 1 || code != step.getOthersValue()) {
        wrong = "expected " + step.getStatus() + " \"" + step.getDetail() + "\", got " + ended;
      }
    }
    if (count > 1 && step.getOthers() != step.getStatus() && asExpected != 1 && wrong.isEmpty()) {
      wrong = asExpected + " calls ended " + step.getStatus() + ", not one";
    }
    return wrong;
  }

  private <S extends AbstractStub<S>> S with(S stub, Step step) {
    int timeoutMs = step.getTimeoutMs() > 0 ? step.getTimeoutMs() : USUAL_TIMEOUT_MS;
    S ready = stub.withDeadlineAfter(timeoutMs, TimeUnit.MILLISECONDS);
    if (step.getGzip()) {
      ready = ready.withCompression("gzip");
    }
    if (token.isEmpty()) {
      return ready;
    }
    Metadata headers = new Metadata();
    headers.put(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER), token);
    return ready.withInterceptors(MetadataUtils.newAttachHeadersInterceptor(headers));
  }

  /** Makes one call; returns how the reply differs. Throws the status if it is not OK. */
  private String call(Step step) throws Exception {
    Context.CancellableContext context = Context.current().withCancellation();
    if (step.getCancelAfterMs() > 0) {
      TIMER.schedule(() -> context.cancel(null), step.getCancelAfterMs(), TimeUnit.MILLISECONDS);
    }
    try {
      return context.call(() -> ask(step));
    } finally {
      context.cancel(null);
    }
  }

  private String ask(Step step) throws Exception {
    var stub = with(KeyValueServiceGrpc.newBlockingStub(channel), step);
    switch (step.getRequestCase()) {
      case CREATE -> stub.create(step.getCreate());
      case UPDATE -> stub.update(step.getUpdate());
      case DELETE -> stub.delete(step.getDelete());
      case RETRIEVE -> {
        ByteString value = stub.retrieve(step.getRetrieve()).getValue();
        return value.equals(step.getValue()) ? "" : "got a value of " + value.size() + " bytes";
      }
      case NOT_SERVED -> with(NotServedGrpc.newBlockingStub(channel), step).retrieve(step.getNotServed());
      case STREAM -> {
        return pipeline(with(KeyValueServiceGrpc.newStub(channel), step), step.getStream());
      }
      default -> {
        return "this step has no request that the client knows";
      }
    }
    return "";
  }

  private static String pipeline(KeyValueServiceGrpc.KeyValueServiceStub stub, Stream wanted) throws Exception {
    List<PipelineResponse> replies = new ArrayList<>();
    CompletableFuture<Void> end = new CompletableFuture<>();
    StreamObserver<PipelineRequest> requests =
        stub.pipeline(
            new StreamObserver<>() {
              @Override
              public void onNext(PipelineResponse reply) {
                replies.add(reply);
              }

              @Override
              public void onError(Throwable error) {
                end.completeExceptionally(error);
              }

              @Override
              public void onCompleted() {
                end.complete(null);
              }
            });
    wanted.getRequestsList().forEach(requests::onNext);
    requests.onCompleted();
    try {
      end.get();
    } catch (ExecutionException error) {
      throw (StatusRuntimeException) error.getCause();
    }
    List<PipelineResponse> missing = new ArrayList<>(wanted.getRepliesList());
    for (PipelineResponse each : replies) {
      int at = 0;
      while (at < missing.size() && !wanted.getInOrder() && missing.get(at).getId() != each.getId()) {
        at++;
      }
      if (at >= missing.size()) {
        return "the reply with id " + Long.toUnsignedString(each.getId()) + " was not expected";
      }
      PipelineResponse expected = missing.remove(at);
      boolean says = each.getDetail().contains(expected.getDetail());
      if (!says || !each.toBuilder().setDetail(expected.getDetail()).build().equals(expected)) {
        String both = "expected the reply " + TextFormat.printer().shortDebugString(expected);
        both += ", got " + TextFormat.printer().shortDebugString(each);
        return both.substring(0, Math.min(400, both.length()));
      }
    }
    return missing.isEmpty() ? "" : missing.size() + " replies are missing at the end of the stream";
  }
}
