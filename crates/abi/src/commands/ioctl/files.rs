//! Files, file systems, block and loop devices.

use crate::errno::ENOTTY;
use crate::layout::{HD_GEOMETRY, INT, LONG, LOOP_CONFIG, LOOP_INFO, LOOP_INFO64};
use crate::plan::{Draft, Limit};
use crate::table::Effect::{By, In, Late};
use crate::table::Len::Fixed;
use crate::table::When::{Always, Success};
use crate::table::{Effect, OUTSIDE, commands, refused};

const fn gets(size: u32) -> Effect {
    Late(2, Fixed(size), Always)
}

const fn sets(size: u32) -> Effect {
    In(2, Fixed(size))
}

/// What `FS_IOC_GETFLAGS` and its siblings move is an `int`, although their numbers encode a `long`.
const FLAGS: u32 = INT;

commands! { KNOWN;
    0x1 FIBMAP:                      OUTSIDE, [sets(INT), gets(INT)];
    0x2 FIGETBSZ:                    OUTSIDE, [gets(INT)];
    0x40049409 FICLONE:              OUTSIDE, [];
    0x4020940d FICLONERANGE:         OUTSIDE, [sets(32)];
    0xc0189436 FIDEDUPERANGE:        OUTSIDE, [By(deduplicate)];
    0xc020660b FS_IOC_FIEMAP:        OUTSIDE, [By(extents)];
    0xc020662a EXT4_IOC_GET_ES_CACHE: OUTSIDE, [By(extents)];
    0x8008662c EXT4_IOC_GETFSUUID:   OUTSIDE, [By(ext4_uuid)];
    0x80086601 FS_IOC_GETFLAGS:      OUTSIDE, [gets(FLAGS)];
    0x40086602 FS_IOC_SETFLAGS:      OUTSIDE, [sets(FLAGS)];
    0x80087601 FS_IOC_GETVERSION:    OUTSIDE, [gets(FLAGS)];
    0x40087602 FS_IOC_SETVERSION:    OUTSIDE, [sets(FLAGS)];
    0x801c581f FS_IOC_FSGETXATTR:    OUTSIDE, [gets(28)];
    0x401c5820 FS_IOC_FSSETXATTR:    OUTSIDE, [sets(28)];
    0x81009431 FS_IOC_GETFSLABEL:    OUTSIDE, [gets(256)];
    0x41009432 FS_IOC_SETFSLABEL:    OUTSIDE, [sets(256)];
    0x80111500 FS_IOC_GETFSUUID:     OUTSIDE, [gets(17)];
    0x80811501 FS_IOC_GETFSSYSFSPATH: OUTSIDE, [gets(129)];
    0xc0045877 FIFREEZE:             OUTSIDE, [];
    0xc0045878 FITHAW:               OUTSIDE, [];
    0xc0185879 FITRIM:               OUTSIDE, [sets(24), gets(24)];
    0x40305828 FS_IOC_RESVSP:        OUTSIDE, [sets(48)];
    0x40305829 FS_IOC_UNRESVSP:      OUTSIDE, [sets(48)];
    0x4030582a FS_IOC_RESVSP64:      OUTSIDE, [sets(48)];
    0x4030582b FS_IOC_UNRESVSP64:    OUTSIDE, [sets(48)];
    0x40305839 FS_IOC_ZERO_RANGE:    OUTSIDE, [sets(48)];
    // Both write although their numbers encode the other direction.
    0x40106614 FS_IOC_GET_ENCRYPTION_PWSALT: OUTSIDE, [gets(16)];
    0x400c6615 FS_IOC_GET_ENCRYPTION_POLICY: OUTSIDE, [gets(12)];
    // The policy has a size of its own, which follows in the argument.
    0xc0096616 FS_IOC_GET_ENCRYPTION_POLICY_EX: OUTSIDE, [By(encryption_policy)];
    0xc0046686 FS_IOC_MEASURE_VERITY: OUTSIDE, [By(verity_digest)];
    0xc0286687 FS_IOC_READ_VERITY_METADATA: OUTSIDE, [By(verity_metadata)];
    // Scanning the page map writes an array behind a pointer, and changes the map on request.
    0xc0606610 PAGEMAP_SCAN:         refused("it writes through a pointer inside its argument", ENOTTY), [];
    0xc0686611 PROCMAP_QUERY:        refused("it writes through pointers inside its argument", ENOTTY), [];
    0x125d BLKROSET:                 OUTSIDE, [sets(INT)];
    0x125e BLKROGET:                 OUTSIDE, [gets(INT)];
    0x125f BLKRRPART:                OUTSIDE, [];
    0x1260 BLKGETSIZE:               OUTSIDE, [gets(LONG)];
    0x1261 BLKFLSBUF:                OUTSIDE, [];
    0x1262 BLKRASET:                 OUTSIDE, [];
    0x1263 BLKRAGET:                 OUTSIDE, [gets(LONG)];
    0x1264 BLKFRASET:                OUTSIDE, [];
    0x1265 BLKFRAGET:                OUTSIDE, [gets(LONG)];
    0x1267 BLKSECTGET:               OUTSIDE, [gets(2)];
    0x1268 BLKSSZGET:                OUTSIDE, [gets(INT)];
    0x1269 BLKPG:                    OUTSIDE, [];
    // Both encode a pointer's size for a number that is narrower.
    0x80081270 BLKBSZGET:            OUTSIDE, [gets(INT)];
    0x40081271 BLKBSZSET:            OUTSIDE, [sets(INT)];
    0x80081272 BLKGETSIZE64:         OUTSIDE, [gets(LONG)];
    0xc0481273 BLKTRACESETUP:        OUTSIDE, [sets(72), gets(72)];
    0x1274 BLKTRACESTART:            OUTSIDE, [];
    0x1275 BLKTRACESTOP:             OUTSIDE, [];
    0x1276 BLKTRACETEARDOWN:         OUTSIDE, [];
    0x1277 BLKDISCARD:               OUTSIDE, [sets(2 * LONG)];
    0x1278 BLKIOMIN:                 OUTSIDE, [gets(INT)];
    0x1279 BLKIOOPT:                 OUTSIDE, [gets(INT)];
    0x127a BLKALIGNOFF:              OUTSIDE, [gets(INT)];
    0x127b BLKPBSZGET:               OUTSIDE, [gets(INT)];
    0x127c BLKDISCARDZEROES:         OUTSIDE, [gets(INT)];
    0x127d BLKSECDISCARD:            OUTSIDE, [sets(2 * LONG)];
    0x127e BLKROTATIONAL:            OUTSIDE, [gets(2)];
    0x127f BLKZEROOUT:               OUTSIDE, [sets(2 * LONG)];
    0xc0101282 BLKREPORTZONE:        OUTSIDE, [By(zones)];
    0x301 HDIO_GETGEO:               OUTSIDE, [gets(HD_GEOMETRY)];
    0x4c00 LOOP_SET_FD:              OUTSIDE, [];
    0x4c01 LOOP_CLR_FD:              OUTSIDE, [];
    0x4c02 LOOP_SET_STATUS:          OUTSIDE, [sets(LOOP_INFO)];
    0x4c03 LOOP_GET_STATUS:          OUTSIDE, [gets(LOOP_INFO)];
    0x4c04 LOOP_SET_STATUS64:        OUTSIDE, [sets(LOOP_INFO64)];
    0x4c05 LOOP_GET_STATUS64:        OUTSIDE, [gets(LOOP_INFO64)];
    0x4c06 LOOP_CHANGE_FD:           OUTSIDE, [];
    0x4c07 LOOP_SET_CAPACITY:        OUTSIDE, [];
    0x4c08 LOOP_SET_DIRECT_IO:       OUTSIDE, [];
    0x4c09 LOOP_SET_BLOCK_SIZE:      OUTSIDE, [];
    0x4c0a LOOP_CONFIGURE:           OUTSIDE, [sets(LOOP_CONFIG)];
    0x4c80 LOOP_CTL_ADD:             OUTSIDE, [];
    0x4c81 LOOP_CTL_REMOVE:          OUTSIDE, [];
    0x4c82 LOOP_CTL_GET_FREE:        OUTSIDE, [];
    0xb701 NS_GET_USERNS:            OUTSIDE, [];
    0xb702 NS_GET_PARENT:            OUTSIDE, [];
    0xb703 NS_GET_NSTYPE:            OUTSIDE, [];
    0xb704 NS_GET_OWNER_UID:         OUTSIDE, [gets(INT)];
    0xff01 PIDFD_GET_CGROUP_NAMESPACE: OUTSIDE, [];
    0xff02 PIDFD_GET_IPC_NAMESPACE:  OUTSIDE, [];
    0xff03 PIDFD_GET_MNT_NAMESPACE:  OUTSIDE, [];
    0xff04 PIDFD_GET_NET_NAMESPACE:  OUTSIDE, [];
    0xff05 PIDFD_GET_PID_NAMESPACE:  OUTSIDE, [];
    0xff06 PIDFD_GET_PID_FOR_CHILDREN_NAMESPACE: OUTSIDE, [];
    0xff07 PIDFD_GET_TIME_NAMESPACE: OUTSIDE, [];
    0xff08 PIDFD_GET_TIME_FOR_CHILDREN_NAMESPACE: OUTSIDE, [];
    0xff09 PIDFD_GET_USER_NAMESPACE: OUTSIDE, [];
    0xff0a PIDFD_GET_UTS_NAMESPACE:  OUTSIDE, [];
}

/// `struct file_dedupe_range` is followed by as many targets as it says, each with an answer in it.
fn deduplicate(draft: &mut Draft<'_>) {
    const HEADER: u64 = 24;
    const TARGET: u64 = 32;
    let range = draft.arg(2);
    let targets = draft.u16(range.wrapping_add(16)).unwrap_or(0);
    let size = HEADER + TARGET * u64::from(targets);
    draft.read(range, size);
    draft.write(Always, range, size);
}

/// `struct fiemap` is followed by room for as many extents as it says.
fn extents(draft: &mut Draft<'_>) {
    const HEADER: u64 = 32;
    const MAPPED: u64 = 20;
    const ROOM: u64 = 24;
    const EXTENT: u64 = 56;
    let map = draft.arg(2);
    let room = draft.u32(map.wrapping_add(ROOM)).unwrap_or(0);
    draft.read(map, HEADER);
    draft.write(Always, map, HEADER);
    // Asked with no room, the kernel counts extents in the same field without writing any.
    let most = u64::from(room) * EXTENT;
    let limit = Limit::ToldItems {
        at: map.wrapping_add(MAPPED),
        unit: EXTENT,
    };
    draft.write_up_to(Always, map.wrapping_add(HEADER), most, limit);
}

/// `struct fsuuid` is a size, flags, and as many bytes as the size says.
fn ext4_uuid(draft: &mut Draft<'_>) {
    let uuid = draft.arg(2);
    let size = draft.u32(uuid).unwrap_or(0);
    draft.read(uuid, 8);
    draft.write(Always, uuid, 8 + u64::from(size));
}

/// `struct blk_zone_report` is followed by room for as many zones as it says.
fn zones(draft: &mut Draft<'_>) {
    const HEADER: u64 = 16;
    const COUNT: u64 = 8;
    const ZONE: u64 = 64;
    let report = draft.arg(2);
    let room = draft.u32(report.wrapping_add(COUNT)).unwrap_or(0);
    draft.read(report, HEADER);
    draft.write(Always, report, HEADER);
    let limit = Limit::ToldItems {
        at: report.wrapping_add(COUNT),
        unit: ZONE,
    };
    let zones = report.wrapping_add(HEADER);
    draft.write_up_to(Always, zones, u64::from(room) * ZONE, limit);
}

/// The room for the policy comes first, and is replaced by the policy's size.
fn encryption_policy(draft: &mut Draft<'_>) {
    let size_at = draft.arg(2);
    let room = draft.u64(size_at).unwrap_or(0);
    draft.read(size_at, 8);
    draft.write(Always, size_at, 8);
    let limit = Limit::Told {
        at: size_at,
        width: 8,
    };
    draft.write_up_to(Success, size_at.wrapping_add(8), room, limit);
}

/// `struct fsverity_digest` has an algorithm and a size of 2 bytes each before the digest.
fn verity_digest(draft: &mut Draft<'_>) {
    let digest = draft.arg(2);
    let room = draft.u16(digest.wrapping_add(2)).unwrap_or(0);
    draft.read(digest, 4);
    draft.write(Always, digest, 4 + u64::from(room));
}

/// The buffer is named by address and size at 24 and 16 in the argument; the result is what was read.
fn verity_metadata(draft: &mut Draft<'_>) {
    let args = draft.arg(2);
    draft.read(args, 40);
    let field = |offset: u64| draft.u64(args.wrapping_add(offset)).unwrap_or(0);
    let (room, buffer) = (field(16), field(24));
    draft.write_up_to(Success, buffer, room, Limit::Returned { unit: 1 });
}
