/// An operation of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum A2aOperation {
    /// Begins or continues a task, and returns it.
    SendMessage,
    /// Begins or continues a task, and streams its updates.
    SendStreamingMessage,
    /// Returns a task.
    GetTask,
    /// Returns tasks.
    ListTasks,
    /// Cancels a task.
    CancelTask,
    /// Streams the updates of a task.
    SubscribeToTask,
    /// Names an address that is told of updates.
    CreateTaskPushNotificationConfig,
    /// Returns such an address.
    GetTaskPushNotificationConfig,
    /// Returns such addresses.
    ListTaskPushNotificationConfigs,
    /// Removes such an address.
    DeleteTaskPushNotificationConfig,
    /// Returns the card for clients that have authenticated themselves.
    GetExtendedAgentCard,
}

impl A2aOperation {
    /// All operations.
    pub const ALL: [Self; 11] = [
        Self::SendMessage,
        Self::SendStreamingMessage,
        Self::GetTask,
        Self::ListTasks,
        Self::CancelTask,
        Self::SubscribeToTask,
        Self::CreateTaskPushNotificationConfig,
        Self::GetTaskPushNotificationConfig,
        Self::ListTaskPushNotificationConfigs,
        Self::DeleteTaskPushNotificationConfig,
        Self::GetExtendedAgentCard,
    ];

    /// Returns the name, which is the method of JSON-RPC.
    pub fn name(self) -> &'static str {
        match self {
            Self::SendMessage => "SendMessage",
            Self::SendStreamingMessage => "SendStreamingMessage",
            Self::GetTask => "GetTask",
            Self::ListTasks => "ListTasks",
            Self::CancelTask => "CancelTask",
            Self::SubscribeToTask => "SubscribeToTask",
            Self::CreateTaskPushNotificationConfig => "CreateTaskPushNotificationConfig",
            Self::GetTaskPushNotificationConfig => "GetTaskPushNotificationConfig",
            Self::ListTaskPushNotificationConfigs => "ListTaskPushNotificationConfigs",
            Self::DeleteTaskPushNotificationConfig => "DeleteTaskPushNotificationConfig",
            Self::GetExtendedAgentCard => "GetExtendedAgentCard",
        }
    }

    /// Returns the operation of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// Returns the operation behind a method and a path below the address of an agent, and the task that the path names.
    pub fn of_path<'a>(method: &str, path: &'a str) -> Option<(Self, Option<&'a str>)> {
        let parts: Vec<_> = path.split('/').collect();
        Some(match (method, parts.as_slice()) {
            ("POST", ["message:send"]) => (Self::SendMessage, None),
            ("POST", ["message:stream"]) => (Self::SendStreamingMessage, None),
            ("GET", ["tasks"]) => (Self::ListTasks, None),
            ("GET", ["extendedAgentCard"]) => (Self::GetExtendedAgentCard, None),
            ("POST", ["tasks", task, "pushNotificationConfigs"]) => {
                (Self::CreateTaskPushNotificationConfig, Some(*task))
            }
            ("GET", ["tasks", task, "pushNotificationConfigs"]) => (Self::ListTaskPushNotificationConfigs, Some(*task)),
            ("GET", ["tasks", task, "pushNotificationConfigs", _]) => {
                (Self::GetTaskPushNotificationConfig, Some(*task))
            }
            ("DELETE", ["tasks", task, "pushNotificationConfigs", _]) => {
                (Self::DeleteTaskPushNotificationConfig, Some(*task))
            }
            (_, ["tasks", task]) => {
                let (task, verb) = task.split_once(':').map_or((*task, None), |(task, verb)| (task, Some(verb)));
                let operation = match (method, verb) {
                    ("GET", None) => Self::GetTask,
                    ("POST", Some("cancel")) => Self::CancelTask,
                    // The specification says POST in its text, and GET in its protobuf.
                    ("GET" | "POST", Some("subscribe")) => Self::SubscribeToTask,
                    _ => return None,
                };
                (operation, Some(task))
            }
            _ => return None,
        })
    }

    /// Returns `true` if the result is a stream.
    pub fn is_streaming(self) -> bool {
        matches!(self, Self::SendStreamingMessage | Self::SubscribeToTask)
    }

    /// Returns `true` if the operation is about addresses that are told of updates.
    pub fn is_about_push_notifications(self) -> bool {
        matches!(
            self,
            Self::CreateTaskPushNotificationConfig
                | Self::GetTaskPushNotificationConfig
                | Self::ListTaskPushNotificationConfigs
                | Self::DeleteTaskPushNotificationConfig
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_has_one_name() {
        for operation in A2aOperation::ALL {
            assert_eq!(A2aOperation::of_name(operation.name()), Some(operation));
        }
        // The names of version 0.3.
        for old in ["message/send", "message/stream", "tasks/get", "sendMessage", ""] {
            assert_eq!(A2aOperation::of_name(old), None);
        }
    }

    #[test]
    fn operation_is_found_by_method_and_path() {
        use A2aOperation::*;
        for (method, path, expected) in [
            ("POST", "message:send", Some((SendMessage, None))),
            ("POST", "message:stream", Some((SendStreamingMessage, None))),
            ("GET", "tasks", Some((ListTasks, None))),
            ("GET", "tasks/t", Some((GetTask, Some("t")))),
            ("POST", "tasks/t:cancel", Some((CancelTask, Some("t")))),
            ("GET", "tasks/t:subscribe", Some((SubscribeToTask, Some("t")))),
            ("POST", "tasks/t:subscribe", Some((SubscribeToTask, Some("t")))),
            ("POST", "tasks/t/pushNotificationConfigs", Some((CreateTaskPushNotificationConfig, Some("t")))),
            ("GET", "tasks/t/pushNotificationConfigs", Some((ListTaskPushNotificationConfigs, Some("t")))),
            ("GET", "tasks/t/pushNotificationConfigs/p", Some((GetTaskPushNotificationConfig, Some("t")))),
            ("DELETE", "tasks/t/pushNotificationConfigs/p", Some((DeleteTaskPushNotificationConfig, Some("t")))),
            ("GET", "extendedAgentCard", Some((GetExtendedAgentCard, None))),
            ("GET", "message:send", None),
            ("POST", "tasks/t", None),
            ("GET", "tasks/t:cancel", None),
            ("POST", "tasks/t:delete", None),
            ("POST", "", None),
            ("GET", "tasks/t/more/and/more", None),
        ] {
            assert_eq!(A2aOperation::of_path(method, path), expected, "{method} {path}");
        }
    }
}
