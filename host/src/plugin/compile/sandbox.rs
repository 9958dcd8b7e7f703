//! The wall around the process that compiles: what it may use, and what it may ask of the kernel. Public for tests alone,
//! which put up one part of it after the other and try to get past.

use std::io;

use super::CompileLimits;

/// The parts of the wall that are up. One that the system lacks is `false`, such as on a kernel without Landlock or seccomp or on
/// another system than Linux, and the child compiles all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompileSandboxStatus {
    /// Memory, processor time, size of files and number of open files are bounded.
    pub limits: bool,
    /// No file can be opened by its path, and no port reached (Landlock).
    pub files: bool,
    /// The system calls of a compiler are the only ones that the kernel takes (seccomp).
    pub calls: bool,
}

impl CompileSandboxStatus {
    const LIMITS: u8 = 1;
    const FILES: u8 = 1 << 1;
    const CALLS: u8 = 1 << 2;

    pub(super) fn to_bits(self) -> u8 {
        let bit = |is_up, bit| if is_up { bit } else { 0 };
        bit(self.limits, Self::LIMITS) | bit(self.files, Self::FILES) | bit(self.calls, Self::CALLS)
    }

    pub(super) fn from_bits(bits: u8) -> Self {
        let is_up = |bit| bits & bit != 0;
        Self { limits: is_up(Self::LIMITS), files: is_up(Self::FILES), calls: is_up(Self::CALLS) }
    }
}

/// Puts this process behind the wall, for good. It must still have a single thread: each part holds for the threads that
/// are started afterwards.
pub fn raise(limits: CompileLimits) -> CompileSandboxStatus {
    // Landlock first: it opens a file of its own, and after the bounds no file can be opened any more.
    CompileSandboxStatus { files: forbid_files(), limits: bound_resources(limits).is_ok(), calls: forbid_calls() }
}

/// Bounds what this process may use.
///
/// # Errors
///
/// The system does not take one of the bounds.
#[cfg(unix)]
pub fn bound_resources(limits: CompileLimits) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    // At the first bound the kernel sends SIGXCPU, by which the parent knows the cause; at the second SIGKILL.
    let seconds = limits.cpu.as_secs().max(1);
    let most = |bound: u64| (bound, bound);
    let mut done = Ok(());
    for (resource, (soft, hard)) in [
        (Resource::Cpu, (seconds, seconds + 1)),
        (Resource::Data, most(limits.memory_bytes)),
        // Memory that is shared is not data. Address space is more than memory: the program itself, stacks, reserves of the
        // allocator.
        (Resource::As, most(limits.memory_bytes.saturating_add(crate::limits::COMPILE_ADDRESS_SPACE_BYTES))),
        (Resource::Fsize, most(0)),
        (Resource::Core, most(0)),
        (Resource::Nofile, most(crate::limits::COMPILE_OPEN_FILES)),
    ] {
        // Where this process may have less already, the lower bound holds: it could not be raised.
        let there = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let result = setrlimit(resource, Rlimit { current: Some(soft.min(there)), maximum: Some(hard.min(there)) });
        // Other systems than Linux do not bound memory by each of the two.
        if cfg!(target_os = "linux") || !matches!(resource, Resource::Data | Resource::As) {
            // One that is refused must not keep the others away.
            done = done.and(result.map_err(io::Error::from));
        }
    }
    done
}

/// Says that there are no bounds here.
///
/// # Errors
///
/// Always.
#[cfg(not(unix))]
pub fn bound_resources(_: CompileLimits) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns `true` if from now on no file can be opened, and no port reached as far as the kernel knows how to forbid that.
#[cfg(target_os = "linux")]
pub fn forbid_files() -> bool {
    use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetStatus, Scope};
    // Each kind of access that is known is handled and none is allowed. What the kernel does not know is left out.
    let restricted = Ruleset::default()
        .handle_access(AccessFs::from_all(ABI::V5))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(ABI::V5)))
        .and_then(|rules| rules.scope(Scope::from_all(ABI::V6)))
        .and_then(Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self);
    restricted.is_ok_and(|status| status.ruleset != RulesetStatus::NotEnforced)
}

/// Returns `false`: there is no such part here.
#[cfg(not(target_os = "linux"))]
pub fn forbid_files() -> bool {
    false
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
/// Returns `false`: there is no such part here.
pub fn forbid_calls() -> bool {
    false
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use filter::forbid_calls;

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod filter {
    use std::collections::BTreeMap;

    use seccompiler::{
        BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Compare, SeccompCondition,
        SeccompFilter, SeccompRule, apply_filter,
    };

    type SeccompRules = BTreeMap<i64, Vec<SeccompRule>>;

    /// Returns `true` if from now on the kernel takes the system calls of a compiler alone. Any other one fails with EPERM.
    pub fn forbid_calls() -> bool {
        let errno = |number: i32| SeccompAction::Errno(number.unsigned_abs());
        let programs = allowed().and_then(|allowed| {
            let arch = std::env::consts::ARCH.try_into()?;
            // `clone3` passes its flags in memory, which a filter cannot read. Where it does not exist the C library uses `clone`,
            // whose flags are in a register.
            let unseen: SeccompRules = [(libc::SYS_clone3, vec![])].into();
            let unseen = SeccompFilter::new(unseen, SeccompAction::Allow, errno(libc::ENOSYS), arch)?;
            let allowed = SeccompFilter::new(allowed, errno(libc::EPERM), SeccompAction::Allow, arch)?;
            Ok([BpfProgram::try_from(unseen)?, BpfProgram::try_from(allowed)?])
        });
        programs.is_ok_and(|programs| programs.iter().all(|program| apply_filter(program).is_ok()))
    }

    /// The system calls that are taken, with the arguments that they must have.
    fn allowed() -> Result<SeccompRules, BackendError> {
        let whole = |at: u8, value: u64| SeccompCondition::new(at, Length::Qword, Compare::Eq, value);
        let word =
            |at: u8, value: i32| SeccompCondition::new(at, Length::Dword, Compare::Eq, u64::from(value.unsigned_abs()));
        let bits = |at: u8, mask: i32, value: i32| {
            let (mask, value) = (u64::from(mask.unsigned_abs()), u64::from(value.unsigned_abs()));
            SeccompCondition::new(at, Length::Qword, Compare::MaskedEq(mask), value)
        };
        let rule = |condition: Result<SeccompCondition, BackendError>| SeccompRule::new(vec![condition?]);
        let own_pid = u64::from(std::process::id());
        let mut rules: SeccompRules = [
            // Memory, threads, time, chance: any of them.
            libc::SYS_munmap,
            libc::SYS_mremap,
            libc::SYS_madvise,
            libc::SYS_brk,
            libc::SYS_futex,
            libc::SYS_sched_yield,
            libc::SYS_sched_getaffinity,
            libc::SYS_set_robust_list,
            libc::SYS_rseq,
            libc::SYS_membarrier,
            libc::SYS_gettid,
            libc::SYS_getpid,
            libc::SYS_getrandom,
            libc::SYS_clock_gettime,
            libc::SYS_clock_nanosleep,
            libc::SYS_nanosleep,
            libc::SYS_restart_syscall,
            libc::SYS_rt_sigaction,
            libc::SYS_rt_sigprocmask,
            libc::SYS_rt_sigreturn,
            libc::SYS_sigaltstack,
            libc::SYS_ppoll,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_poll,
            libc::SYS_close,
            libc::SYS_exit,
            libc::SYS_exit_group,
            // Forbidden by the other filter, whose answer lets the C library fall back.
            libc::SYS_clone3,
        ]
        .map(|call| (call, vec![]))
        .into();
        rules.insert(libc::SYS_read, vec![rule(word(0, libc::STDIN_FILENO))?]);
        for call in [libc::SYS_write, libc::SYS_writev] {
            let to = [libc::STDOUT_FILENO, libc::STDERR_FILENO];
            rules.insert(call, to.map(|to| rule(word(0, to))).into_iter().collect::<Result<_, _>>()?);
        }
        // No memory can be executed that was not when the program began, and no file that the parent left open is mapped.
        let anonymous = bits(3, libc::MAP_ANONYMOUS, libc::MAP_ANONYMOUS)?;
        rules.insert(libc::SYS_mmap, vec![SeccompRule::new(vec![bits(2, libc::PROT_EXEC, 0)?, anonymous])?]);
        rules.insert(libc::SYS_mprotect, vec![rule(bits(2, libc::PROT_EXEC, 0))?]);
        // Threads and no processes.
        rules.insert(libc::SYS_clone, vec![rule(bits(0, libc::CLONE_THREAD, libc::CLONE_THREAD))?]);
        rules.insert(libc::SYS_prctl, vec![rule(word(0, libc::PR_SET_NAME))?]);
        // How a program aborts.
        rules.insert(libc::SYS_tgkill, vec![rule(whole(0, own_pid))?]);
        Ok(rules)
    }
}
