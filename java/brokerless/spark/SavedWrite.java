package brokerless.spark;

import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.sources.InsertableRelation;

/** A write to a table whose rows Spark does not write itself: rows of an INSERT are saved as those of a data frame. */
record SavedWrite(Write write, LogicalWriteInfo info) implements V1Write {
  @Override
  public String description() {
    return write.description();
  }

  @Override
  public InsertableRelation toInsertableRelation() {
    return (rows, overwrites) ->
        BatchSink.save(
            rows, info.options().asCaseSensitiveMap(), overwrites ? SaveMode.Overwrite : SaveMode.Append);
  }

  @Override
  public StreamingWrite toStreaming() {
    return write.toStreaming();
  }

  /** Takes whether the topic is replaced. */
  static final class Builder implements SupportsTruncate {
    private final LogicalWriteInfo info;
    private WriteBuilder write;

    Builder(WriteBuilder write, LogicalWriteInfo info) {
      this.write = write;
      this.info = info;
    }

    @Override
    public WriteBuilder truncate() {
      write = ((SupportsTruncate) write).truncate();
      return this;
    }

    @Override
    public Write build() {
      return new SavedWrite(write.build(), info);
    }
  }
}
