//! The sandbox of the process that compiles: resource limits, file access, system calls. Public for tests alone, which
//! raise its parts one by one and try to get past them.

use std::io;

use super::compile_config::CompileLimits;

/// The parts of the sandbox that are active. A part is `false` if the system lacks it, as a kernel without Landlock or
/// seccomp does, or any system but Linux; the child compiles all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompileSandboxStatus {
    /// Memory, processor time, file size and the number of open files are limited.
    pub limits: bool,
    /// No file can be opened by its path, and no port reached (Landlock).
    pub files: bool,
    /// The kernel accepts only the system calls that a compiler needs (seccomp).
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

/// Puts this process into the sandbox, for good. It must still have a single thread: each part applies to the threads
/// that are started afterwards.
pub fn raise(limits: CompileLimits) -> CompileSandboxStatus {
    // Landlock first: it opens a file of its own, which the limits forbid.
    CompileSandboxStatus { files: forbid_files(), limits: bound_resources(limits).is_ok(), calls: forbid_calls() }
}

/// Limits the resources of this process.
///
/// # Errors
///
/// The system rejects one of the limits.
#[cfg(unix)]
pub fn bound_resources(limits: CompileLimits) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    // At the soft limit the kernel sends SIGXCPU, by which the parent knows the cause; at the hard limit SIGKILL.
    let seconds = limits.cpu.as_secs().max(1);
    let most = |bound: u64| (bound, bound);
    let mut done = Ok(());
    for (resource, (soft, hard)) in [
        (Resource::Cpu, (seconds, seconds + 1)),
        (Resource::Data, most(limits.memory_bytes)),
        // Shared memory is not data. Address space is more than memory: the program itself, stacks, reserves of the
        // allocator.
        (Resource::As, most(limits.memory_bytes.saturating_add(shelly_core::limits::COMPILE_ADDRESS_SPACE_BYTES))),
        (Resource::Fsize, most(0)),
        (Resource::Core, most(0)),
        (Resource::Nofile, most(shelly_core::limits::COMPILE_OPEN_FILES)),
    ] {
        // If this process already has a lower hard limit, that one stays, since it cannot be raised.
        let there = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let result = setrlimit(resource, Rlimit { current: Some(soft.min(there)), maximum: Some(hard.min(there)) });
        // Systems other than Linux do not limit memory by both.
        if cfg!(target_os = "linux") || !matches!(resource, Resource::Data | Resource::As) {
            // One rejected limit must not prevent the others.
            done = done.and(result.map_err(io::Error::from));
        }
    }
    done
}

/// Reports that limits are unsupported here.
///
/// # Errors
///
/// Always.
#[cfg(not(unix))]
pub fn bound_resources(_: CompileLimits) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Forbids opening files, and reaching ports as far as the kernel supports that. Returns `true` if that is enforced.
#[cfg(target_os = "linux")]
pub fn forbid_files() -> bool {
    use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetStatus, Scope};
    // Handle every kind of access and allow none. Kinds that the kernel does not know are left out.
    let restricted = Ruleset::default()
        .handle_access(AccessFs::from_all(ABI::V5))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(ABI::V5)))
        .and_then(|rules| rules.scope(Scope::from_all(ABI::V6)))
        .and_then(Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self);
    restricted.is_ok_and(|status| status.ruleset != RulesetStatus::NotEnforced)
}

/// Returns `false`: Landlock exists on Linux alone.
#[cfg(not(target_os = "linux"))]
pub fn forbid_files() -> bool {
    false
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
/// Returns `false`: the filter exists for Linux on x86-64 and AArch64 alone.
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

    /// Restricts the process to the system calls of a compiler; any other one fails with EPERM. Returns `true` if that
    /// is enforced.
    pub fn forbid_calls() -> bool {
        let errno = |number: i32| SeccompAction::Errno(number.unsigned_abs());
        let programs = allowed().and_then(|allowed| {
            let arch = std::env::consts::ARCH.try_into()?;
            // `clone3` passes its flags in memory, which a filter cannot read. With ENOSYS the C library falls back to
            // `clone`, whose flags are in a register.
            let unseen: SeccompRules = [(libc::SYS_clone3, vec![])].into();
            let unseen = SeccompFilter::new(unseen, SeccompAction::Allow, errno(libc::ENOSYS), arch)?;
            let allowed = SeccompFilter::new(allowed, errno(libc::EPERM), SeccompAction::Allow, arch)?;
            Ok([BpfProgram::try_from(unseen)?, BpfProgram::try_from(allowed)?])
        });
        programs.is_ok_and(|programs| programs.iter().all(|program| apply_filter(program).is_ok()))
    }

    /// Returns the system calls that are allowed, with the conditions on their arguments.
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
            // Memory, threads, time and random numbers, with any arguments.
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
            // The other filter answers this one with ENOSYS, so that the C library falls back.
            libc::SYS_clone3,
        ]
        .map(|call| (call, vec![]))
        .into();
        rules.insert(libc::SYS_read, vec![rule(word(0, libc::STDIN_FILENO))?]);
        for call in [libc::SYS_write, libc::SYS_writev] {
            let to = [libc::STDOUT_FILENO, libc::STDERR_FILENO];
            rules.insert(call, to.map(|to| rule(word(0, to))).into_iter().collect::<Result<_, _>>()?);
        }
        // No new executable memory, and no mapping of a file that the parent left open.
        let anonymous = bits(3, libc::MAP_ANONYMOUS, libc::MAP_ANONYMOUS)?;
        rules.insert(libc::SYS_mmap, vec![SeccompRule::new(vec![bits(2, libc::PROT_EXEC, 0)?, anonymous])?]);
        rules.insert(libc::SYS_mprotect, vec![rule(bits(2, libc::PROT_EXEC, 0))?]);
        // Threads, but no processes.
        rules.insert(libc::SYS_clone, vec![rule(bits(0, libc::CLONE_THREAD, libc::CLONE_THREAD))?]);
        rules.insert(libc::SYS_prctl, vec![rule(word(0, libc::PR_SET_NAME))?]);
        // Needed for `abort`.
        rules.insert(libc::SYS_tgkill, vec![rule(whole(0, own_pid))?]);
        Ok(rules)
    }
}
